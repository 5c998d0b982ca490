from django.db import models


class Row(models.Model):
    key = models.CharField(max_length=80, primary_key=True)
    created_at = models.DateTimeField(auto_now_add=True)


class Task(models.Model):
    """The outbox: a task that was accepted. Redis may forget it; this table does not."""

    key = models.CharField(max_length=80, primary_key=True)
    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True)
    done_at = models.DateTimeField(null=True)


class Attempt(models.Model):
    """A worker began a task."""

    key = models.CharField(max_length=80)
    began_at = models.DateTimeField(auto_now_add=True)


class Effect(models.Model):
    """The row that a task writes. Nothing here prevents a second one."""

    key = models.CharField(max_length=80)
    worker = models.CharField(max_length=120)
    written_at = models.DateTimeField(auto_now_add=True)


class Tick(models.Model):
    """A call of beat, each in the slot of its time. `beat` is null if nothing came in that slot: it was missed."""

    slot = models.BigIntegerField(primary_key=True)
    beat = models.CharField(max_length=120, null=True)
    sent_at = models.FloatField(null=True)


class Run(models.Model):
    """A job of the platform that ended well. Nothing here prevents a second one."""

    run = models.CharField(max_length=80)
    written_at = models.DateTimeField(auto_now_add=True)
