ALTER TABLE "workspaces" ADD COLUMN "owner_channel_at" timestamp with time zone;--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
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
