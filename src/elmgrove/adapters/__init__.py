"""Elmgrove's learners in the words of other libraries: scikit-learn, River.

Each module needs the library it speaks to, which comes as an extra of the same name:
``pip install 'elmgrove[sklearn]'`` for ``elmgrove.adapters.sklearn``, ``elmgrove[river]`` for
``elmgrove.adapters.river``.
"""
