"""Estimators for scikit-learn: an outlier detector, a classifier and a regressor.

They check their input as scikit-learn does and scale nothing: put a scaler before them in a
``Pipeline``, since of columns of different size the largest would decide alone.
"""

from elmgrove.errors import require_extra

try:
    from elmgrove.adapters.sklearn.classifier import OSELMClassifier
    from elmgrove.adapters.sklearn.outlier import ElmgroveOutlierDetector
    from elmgrove.adapters.sklearn.regressor import OSELMRegressor
except ImportError:
    require_extra("sklearn", "sklearn")
    raise

__all__ = ["ElmgroveOutlierDetector", "OSELMClassifier", "OSELMRegressor"]
