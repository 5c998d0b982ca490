import os

from django.core.management.base import BaseCommand

from shop.models import Run


class Command(BaseCommand):
    help = 'Writes one row for the job that runs it.'

    def handle(self, *args, **options):
        Run.objects.create(run=os.environ['SLIPWAY_RUN_ID'])
