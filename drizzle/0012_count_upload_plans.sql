-- Custom SQL migration file, put your code below! ----> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
create or replace function require_upload_room(p_tenant uuid, p_bytes bigint, p_limit bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 COST 20000
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_used bigint;
begin
  perform pg_advisory_xact_lock(hashtextextended('uploads of ' || p_tenant, 0));
  select coalesce(
    sum(
      coalesce(size, reserved)
      + coalesce(pg_column_size(build_plan), 0)
      + coalesce(pg_column_size(build_refusal), 0)
    ),
    0
  )
  into v_used
  from uploads
  where tenant_id = p_tenant
    and (state in ('stored', 'removing') or state = 'receiving' and used_at > clock() - interval '1 hour');
  if v_used + p_bytes > p_limit then perform refuse('uploads_full'); end if;
  return true;
end $function$;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
