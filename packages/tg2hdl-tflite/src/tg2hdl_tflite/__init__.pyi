from .model import TfliteModel as TfliteModel
