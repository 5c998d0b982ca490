-- Spans of OpenTelemetry name their parents alone. These rows place the runs of spans that come in several requests.
create table otlp_spans (
  organization_id uuid not null,
  tenant_id uuid not null,
  trace uuid not null,
  span uuid not null,
  parent uuid,
  run_id uuid not null,
  order_time timestamptz not null,
  dotted_order text not null,
  is_root boolean not null,
  is_fixed boolean not null,
  created_at timestamptz default clock() not null,
  constraint otlp_spans_tenant_id_trace_span_pk primary key (tenant_id, trace, span)
);
-- Not by the trace first, as the primary key is: a planner that knows little of the table could take either.
create index otlp_spans_children on otlp_spans (tenant_id, parent, trace);
create index otlp_spans_roots on otlp_spans (tenant_id, trace) where is_root;
create index otlp_spans_age on otlp_spans (created_at);
--> statement-breakpoint
alter table otlp_spans enable row level security, force row level security;
create policy everything on otlp_spans to slipway_system using (true) with check (true);
create policy own on otlp_spans to slipway_app
  using (tenant_id = current_tenant())
  with check (tenant_id = current_tenant() and organization_id = current_organization());
grant select, insert, update, delete on otlp_spans to slipway_system;
grant select, insert, update (dotted_order) on otlp_spans to slipway_app;
-- A run whose ancestors come later moves below them.
grant update (trace_id, trace_time) on runs to slipway_app;
grant update (trace_id) on trace_objects to slipway_app;
