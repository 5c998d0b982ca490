create table webhooks (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  url text not null,
  description text not null,
  event_types text[] not null,
  deployment_ids uuid[] not null,
  tag_value_ids uuid[] not null,
  enabled boolean default true not null,
  secret text not null,
  previous_secret text,
  previous_secret_until timestamptz,
  signing_key text not null,
  public_key text not null,
  position bigint not null,
  failing_since timestamptz,
  disabled_reason text,
  disabled_at timestamptz,
  throttled integer default 0 not null,
  next_send_at timestamptz default clock() not null,
  version integer default 1 not null,
  created_at timestamptz default clock() not null,
  updated_at timestamptz default clock() not null,
  constraint webhooks_tenant_id_workspaces_id_fk foreign key (tenant_id) references workspaces (id) on delete cascade
);
--> statement-breakpoint
create index webhooks_page on webhooks (tenant_id, created_at desc, id desc);
--> statement-breakpoint
create table webhook_deliveries (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  webhook_id uuid not null,
  seq bigint not null,
  type text not null,
  deployment json,
  state text default 'waiting' not null,
  attempts integer default 0 not null,
  next_attempt_at timestamptz,
  attempted_at timestamptz,
  request_headers json,
  answer_status integer,
  answer_body text,
  duration_ms integer,
  error text,
  created_at timestamptz default clock() not null,
  constraint webhook_deliveries_one unique (webhook_id, seq),
  constraint webhook_deliveries_webhook_id_webhooks_id_fk
    foreign key (webhook_id) references webhooks (id) on delete cascade
);
--> statement-breakpoint
create index webhook_deliveries_retries on webhook_deliveries (webhook_id, next_attempt_at)
  where state = 'waiting';
--> statement-breakpoint
create index webhook_deliveries_new on webhook_deliveries (webhook_id, seq)
  where state = 'waiting' and attempts = 0;
--> statement-breakpoint
create index webhook_deliveries_page on webhook_deliveries
  (webhook_id, created_at desc, id desc);
--> statement-breakpoint
create index webhook_deliveries_age on webhook_deliveries using brin (created_at);
--> statement-breakpoint

-- In plpgsql, which caches the plan: inline, with the policy to plan, it took three times the CPU.
create function has_webhooks(p_tenant uuid) returns boolean
language plpgsql stable as $$
begin
  return exists (select from webhooks w where w.tenant_id = p_tenant and w.enabled);
end $$;
--> statement-breakpoint
-- Compared with the row's own workspace, whoever writes. Without foreign keys: a filter may outlive what it names.
create function check_webhook_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if exists (select from deployments d where d.id = any(new.deployment_ids) and d.tenant_id <> new.tenant_id)
    or exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'a webhook refers to a row of another workspace';
  end if;
  return null;
end $$;
--> statement-breakpoint
create trigger check_references
  after insert or update of deployment_ids, tag_value_ids on webhooks
  for each row execute function check_webhook_references();
--> statement-breakpoint
grant create on schema public to slipway_system;
alter function check_webhook_references() owner to slipway_system;
revoke create on schema public from slipway_system;
--> statement-breakpoint
set local role slipway_system;
revoke execute on function check_webhook_references() from public;
reset role;
--> statement-breakpoint
-- Only slipway_system may execute this function, which a trigger's creator must.
grant trigger on webhooks to slipway_system;
set local role slipway_system;
create trigger enforce_quota
  after insert on webhooks
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '100', 'true', 'webhooks');
reset role;
revoke trigger on webhooks from slipway_system;
--> statement-breakpoint

do $$
declare
  v_table text;
begin
  foreach v_table in array array['webhooks', 'webhook_deliveries'] loop
    execute format('alter table %I enable row level security, force row level security', v_table);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on %I to slipway_system', v_table);
  end loop;
end $$;
--> statement-breakpoint
create policy own on webhooks to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
-- An agent sees which of the workspaces that it serves have webhooks: its reports are sent to them at once.
create policy served on webhooks for select to slipway_agent
  using (
    exists (
      select from deployments d
      where d.tenant_id = webhooks.tenant_id
        and d.listener_id = current_listener()
    )
  );
grant select, insert, delete, update (
    url, description, event_types, deployment_ids, tag_value_ids, enabled, secret, previous_secret,
    previous_secret_until, position, failing_since, disabled_reason, disabled_at, throttled, next_send_at, version,
    created_at, updated_at
  ) on webhooks to slipway_app;
grant select (tenant_id, enabled) on webhooks to slipway_agent;
--> statement-breakpoint
create policy own on webhook_deliveries to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
grant select, update (
    state, attempts, next_attempt_at, attempted_at, request_headers, answer_status, answer_body, duration_ms, error
  ) on webhook_deliveries to slipway_app;
