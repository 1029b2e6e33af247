"""Models trained with other libraries, as `gpbounds.renyi.Model`; one file per library.

Classes are recognised by their names, parameters by the attributes that the libraries document, so that no library is
needed but those that made the model.
"""

from gpbounds.renyi.readers.gpflow import from_gpflow
from gpbounds.renyi.readers.gpjax import from_gpjax
from gpbounds.renyi.readers.gpytorch import from_gpytorch
from gpbounds.renyi.readers.sklearn import from_sklearn

__all__ = ["from_gpflow", "from_gpjax", "from_gpytorch", "from_sklearn"]
