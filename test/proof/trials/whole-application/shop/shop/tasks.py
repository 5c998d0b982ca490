import os
import socket
import time
from datetime import timedelta

from celery import shared_task
from django.db import transaction
from django.db.models import Max, Q
from django.utils import timezone

from shop.celery import TICK_SECONDS
from shop.models import Attempt, Effect, Task, Tick

# Redis has lost a task, or a worker has, if it is not done so long after it was sent.
RESEND_AFTER = timedelta(seconds=10)
BATCH = 100
# A copy of `worker`.
WORKER = f'{socket.gethostname()}:{os.environ.get("PORT")}'


def send(key):
    """After the commit of its outbox row. If Redis is away, `sweep` sends it."""
    try:
        work.apply_async((key,), retry=False)
    except work.OperationalError:
        return
    Task.objects.filter(key=key).update(sent_at=timezone.now())


@shared_task
def work(key):
    Attempt.objects.create(key=key)
    with transaction.atomic():
        task = Task.objects.select_for_update().get(key=key)
        if task.done_at:
            return
        # Long enough to be killed in the middle.
        time.sleep(0.02)
        Effect.objects.create(key=key, worker=WORKER)
        task.done_at = timezone.now()
        task.save(update_fields=['done_at'])


@shared_task
def tick(beat, sent_at=None):
    """`sent_at` is set when it is sent."""
    record(beat, sent_at)
    sweep()


def record(beat, sent_at):
    """A slot in which nothing came is recorded as missed, by the next that comes."""
    slot = int(sent_at // TICK_SECONDS)
    last = Tick.objects.aggregate(last=Max('slot'))['last']
    missed = [Tick(slot=one) for one in range(last + 1, slot)] if last is not None else []
    came = Tick(slot=slot, beat=beat, sent_at=sent_at)
    with transaction.atomic():
        Tick.objects.bulk_create(missed, ignore_conflicts=True)
        Tick.objects.bulk_create(
            [came], update_conflicts=True, unique_fields=['slot'], update_fields=['beat', 'sent_at']
        )


def sweep():
    late = Q(sent_at=None, created_at__lt=timezone.now() - timedelta(seconds=2)) | Q(
        sent_at__lt=timezone.now() - RESEND_AFTER
    )
    for key in Task.objects.filter(late, done_at=None).order_by('created_at').values_list('key', flat=True)[:BATCH]:
        send(key)
