from django.urls import path

from shop import views

urlpatterns = [
    path('health', views.health),
    path('release', views.release),
    path('rows/<slug:key>', views.row),
    path('files/<slug:key>', views.file),
    path('tasks/<slug:key>', views.task),
    path('report', views.report),
]
