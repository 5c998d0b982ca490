alter table listeners add column templates text[];
--> statement-breakpoint
grant update (templates) on listeners to slipway_agent;
--> statement-breakpoint

-- Refuses a template that none of the listeners offers which can take the deployment: the named one, or those of the
-- platform. While one of them has not told its templates, nothing is refused.
create function require_offered_template(p_template text, p_listener uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_offered text[];
  v_all_told boolean;
begin
  select coalesce(array_agg(distinct t.name order by t.name) filter (where t.name is not null), '{}'),
    bool_and(l.templates is not null)
  into v_offered, v_all_told
  from listeners l
  left join lateral unnest(l.templates) t(name) on true
  where (l.id = p_listener and l.tenant_id = current_tenant()) or (p_listener is null and l.tenant_id is null);
  if v_all_told and p_template <> all (v_offered) then
    perform refuse('template_unknown', format(
      '%s; it offers %s%s',
      p_template,
      array_to_string(v_offered[:20], ', '),
      case when cardinality(v_offered) > 20 then format(' and %s more', cardinality(v_offered) - 20) else '' end
    ));
  end if;
  return true;
end $$;
--> statement-breakpoint
revoke execute on function require_offered_template(text, uuid) from public;
--> statement-breakpoint
grant execute on function require_offered_template(text, uuid) to slipway_app;
