import hashlib
import os
from collections import Counter

from django.conf import settings
from django.db import connection
from django.http import HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_http_methods

from shop.models import Attempt, Effect, Row, Run, Task, Tick
from shop.tasks import send


@require_GET
def health(request):
    return HttpResponse('ok')


@require_GET
def release(request):
    with connection.cursor() as cursor:
        cursor.execute("select name from django_migrations where app = 'shop' order by id")
        migrations = [name for (name,) in cursor.fetchall()]
    return JsonResponse({'release': (settings.BASE_DIR / 'RELEASE').read_text().strip(), 'migrations': migrations})


@csrf_exempt
@require_http_methods(['PUT'])
def row(request, key):
    Row.objects.get_or_create(key=key)
    return JsonResponse({'key': key}, status=201)


@csrf_exempt
@require_http_methods(['PUT'])
def task(request, key):
    Task.objects.get_or_create(key=key)
    send(key)
    return JsonResponse({'key': key}, status=202)


@csrf_exempt
@require_http_methods(['PUT', 'GET'])
def file(request, key):
    path = settings.MEDIA_ROOT / key
    if request.method == 'GET':
        return HttpResponse(path.read_bytes()) if path.exists() else HttpResponse(status=404)
    settings.MEDIA_ROOT.mkdir(parents=True, exist_ok=True)
    part = settings.MEDIA_ROOT / f'.{key}.{os.getpid()}'
    with open(part, 'wb') as output:
        output.write(request.body)
        output.flush()
        os.fsync(output.fileno())
    os.replace(part, path)
    folder = os.open(settings.MEDIA_ROOT, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    return JsonResponse({'sha256': hashlib.sha256(request.body).hexdigest()}, status=201)


@require_GET
def report(request):
    """Everything that was written, for the one who compares it with what was acknowledged."""
    attempts = Counter(Attempt.objects.values_list('key', flat=True))
    files = settings.MEDIA_ROOT.glob('[!.]*') if settings.MEDIA_ROOT.exists() else []
    return JsonResponse(
        {
            'rows': list(Row.objects.values_list('key', flat=True)),
            'files': {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files},
            'open': list(Task.objects.filter(done_at=None).values_list('key', flat=True)),
            'effects': Counter(Effect.objects.values_list('key', flat=True)),
            'workers': dict(Effect.objects.values_list('key', 'worker')),
            'repeated': sum(count > 1 for count in attempts.values()),
            'ticks': list(Tick.objects.order_by('slot').values('slot', 'beat', 'sent_at')),
            'runs': Counter(Run.objects.values_list('run', flat=True)),
        }
    )
