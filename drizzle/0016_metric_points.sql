-- What the copies of a revision used and answered: a row for each minute of the last day, and for each hour of the last
-- 30 days. Counts add up, and percentiles come from the counts of the buckets. A null was not measured.
create table metric_points (
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  revision_id uuid not null,
  seconds integer not null,
  at timestamptz not null,
  cpu_minutes bigint not null,
  memory_minutes bigint not null,
  copies integer not null,
  memory_peak_bytes bigint,
  restarts bigint,
  cpu_ms bigint,
  memory_bytes bigint,
  unreached bigint,
  status_1xx bigint,
  status_2xx bigint,
  status_3xx bigint,
  status_4xx bigint,
  status_5xx bigint,
  latency_1 bigint,
  latency_2 bigint,
  latency_5 bigint,
  latency_10 bigint,
  latency_20 bigint,
  latency_50 bigint,
  latency_100 bigint,
  latency_200 bigint,
  latency_500 bigint,
  latency_1000 bigint,
  latency_2000 bigint,
  latency_5000 bigint,
  latency_10000 bigint,
  latency_20000 bigint,
  latency_60000 bigint,
  latency_more bigint,
  constraint metric_points_deployment_id_seconds_at_revision_id_pk primary key (deployment_id, seconds, at, revision_id)
  -- The row of the current hour is updated every minute.
) with (fillfactor = 80);
--> statement-breakpoint
-- A request of an agent locks the deployments before it inserts, as every other write does.
alter table metric_points add constraint metric_points_deployment_id_deployments_id_fk
  foreign key (deployment_id) references deployments(id) on delete cascade;
create index metric_points_age on metric_points (seconds, at);
--> statement-breakpoint

alter table metric_points enable row level security, force row level security;
create policy everything on metric_points to slipway_system using (true) with check (true);
grant select, insert, update, delete on metric_points to slipway_system;
create policy own on metric_points to slipway_app
  using (tenant_id = current_tenant());
grant select on metric_points to slipway_app;
-- An agent writes points of revisions of a deployment that its listener serves.
create policy served on metric_points to slipway_agent
  using (
    exists (
      select from deployments d
      where d.id = deployment_id
        and d.listener_id = current_listener()
    )
  )
  with check (
    exists (
      select from revisions r
      join deployments d on d.id = r.deployment_id
      where r.id = revision_id
        and d.id = metric_points.deployment_id
        and d.listener_id = current_listener()
        and d.tenant_id = metric_points.tenant_id
        and d.organization_id = metric_points.organization_id
    )
  );
grant select, insert, update (
    cpu_minutes, memory_minutes, copies, memory_peak_bytes,
    restarts, cpu_ms, memory_bytes, unreached, status_1xx, status_2xx, status_3xx, status_4xx, status_5xx,
    latency_1, latency_2, latency_5, latency_10, latency_20, latency_50, latency_100, latency_200, latency_500,
    latency_1000, latency_2000, latency_5000, latency_10000, latency_20000, latency_60000, latency_more
  ) on metric_points to slipway_agent;
