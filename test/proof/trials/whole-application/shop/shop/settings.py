import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = os.environ['SECRET_KEY']
ALLOWED_HOSTS = ['*']
ROOT_URLCONF = 'shop.urls'
WSGI_APPLICATION = 'shop.wsgi.application'
INSTALLED_APPS = ['shop']
DEFAULT_AUTO_FIELD = 'django.db.models.BigAutoField'
USE_TZ = True
TIME_ZONE = 'UTC'

database = urlsplit(os.environ['DATABASE_URL'])
DATABASES = {
    'default': {
        'ENGINE': 'django.db.backends.postgresql',
        'NAME': unquote(database.path[1:]),
        'USER': unquote(database.username),
        'PASSWORD': unquote(database.password),
        'HOST': database.hostname,
        'PORT': database.port or 5432,
        'CONN_MAX_AGE': 60,
        'CONN_HEALTH_CHECKS': True,
        'OPTIONS': {'connect_timeout': 60},
    }
}

# A disk is mounted here. Without it, files are gone with the next revision.
MEDIA_ROOT = BASE_DIR / 'media'
