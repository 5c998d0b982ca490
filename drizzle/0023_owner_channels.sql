ALTER TABLE "workspaces" ADD COLUMN "owner_channel_at" timestamp with time zone;--> statement-breakpoint
CREATE INDEX "workspaces_without_owner_channel" ON "workspaces" USING btree ("created_at") WHERE owner_channel_at is null;--> statement-breakpoint
-- By hand: the lines that a busy application replaces are more than the vacuum removes at its usual pace.
ALTER TABLE "log_lines" SET (autovacuum_vacuum_cost_delay = 0);--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
set local role slipway_system;
create or replace function add_default_alert_rules()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  insert into alert_rules (
    organization_id, tenant_id, built_in, name, kind, condition, for_seconds, resolve_after_seconds, severity
  )
  select
    new.organization_id, new.id, r.built_in, r.name, r.condition ->> 'kind', r.condition,
    -- A copy that ends once and is back within seconds is no incident, unless it was killed for its memory.
    case r.built_in when 'unhealthy' then 5 else 0 end, r.resolve_after, r.severity
  from default_alert_rules() r
  on conflict do nothing;
  return null;
end $function$;
reset role;
set local role slipway_system;
create or replace function count_default_channels()
 RETURNS bigint
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select count(*)
  from channels c
  where c.tenant_id = current_tenant() and c.is_default and c.enabled and c.confirmed_at is not null
$function$;
reset role;
set local role slipway_system;
revoke execute on function count_default_channels() from public;
grant execute on function count_default_channels() to slipway_app;
reset role;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
