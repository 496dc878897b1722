"""Elmgrove's learners as estimators of other libraries: scikit-learn, River.

Each module needs its library, which comes as an extra of the same name:
``pip install 'elmgrove[sklearn]'`` for ``elmgrove.adapters.sklearn``, ``elmgrove[river]`` for
``elmgrove.adapters.river``.
"""
