import os
import time

from celery import Celery
from celery.signals import before_task_publish

os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')

TICK_SECONDS = 2
# Names one process of beat, so that two at the same time would be seen.
BEAT = f'{os.environ.get("SLIPWAY_REVISION_ID", "")}/{os.getpid()}/{time.time():.3f}'

app = Celery('shop', broker=os.environ['REDIS_URL'])
app.conf.update(
    task_ignore_result=True,
    # A job is acknowledged to Redis after its end. The outbox decides whether it is done.
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={
        'visibility_timeout': 30,
        'socket_timeout': 5,
        'socket_connect_timeout': 2,
        'health_check_interval': 5,
    },
    beat_schedule={
        'tick': {'task': 'shop.tasks.tick', 'schedule': float(TICK_SECONDS), 'kwargs': {'beat': BEAT}},
    },
    beat_max_loop_interval=TICK_SECONDS,
)
app.autodiscover_tasks(['shop'])


@before_task_publish.connect(sender='shop.tasks.tick')
def stamp(body=None, **_):
    body[1]['sent_at'] = time.time()
