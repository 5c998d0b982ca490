-- The next functions replace those of the same name. Events of automation rules name projects and datasets.
create or replace function is_shown_event(p_type text, p_subject uuid, p_data json) returns boolean
language plpgsql stable as $$
declare
  v_kind text := split_part(p_type, '.', 1);
  v_resource record;
  v_id uuid;
  v_is_shown boolean;
begin
  for v_resource in
    values
      ('deployment', 'deployments', '{deployment, preview_policy}'::text[], 'deployment_id'),
      ('deployment', 'revisions', '{revision}', null),
      ('deployment', 'previews', '{preview}', null),
      ('deployment', 'custom_hosts', '{custom_host}', null),
      ('project', 'projects', '{project}', 'project_id'),
      ('project', 'run_rules', '{rule}', null),
      ('dataset', 'run_rules', '{rule}', null),
      ('dataset', 'datasets', '{dataset}', 'dataset_id'),
      ('queue', 'annotation_queues', '{annotation_queue}', 'queue_id')
  loop
    continue when not hides(v_resource.column1);
    v_id := case
      when p_data ->> v_resource.column4 ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        then (p_data ->> v_resource.column4)::uuid
      when v_kind = any(v_resource.column3) then p_subject
    end;
    continue when v_id is null;
    execute format('select exists (select from %I where id = $1)', v_resource.column2) into v_is_shown using v_id;
    if not v_is_shown then return false; end if;
  end loop;
  return true;
end $$;
--> statement-breakpoint
create or replace function resolve_condition(p_tenant uuid, p_rule bigint, p_is_deny boolean, p_condition jsonb)
returns access_condition
language plpgsql stable as $$
declare
  v_value text := p_condition ->> 'attribute_value';
  v_operator text := replace(p_condition ->> 'operator', '_if_exists', '');
  v_comparison text := replace(v_operator, 'not_', '');
  v_pattern text := glob_pattern(v_value);
  v_known uuid[];
  v_matching uuid[];
begin
  select
    array_agg(v.id),
    array_agg(v.id) filter (where case v_comparison
      when 'equals' then v.value = v_value
      when 'equals_ignore_case' then lower(v.value) = lower(v_value)
      when 'matches' then v.value like v_pattern
    end)
  into v_known, v_matching
  from tag_keys k
  join tag_values v on v.tag_key_id = k.id
  where k.tenant_id = p_tenant and k.key = p_condition ->> 'attribute_key';
  -- Without a value that compares, a plain comparison fails whether or not the resource has the key. So only the others
  -- need to know all its values, of which there may be a thousand.
  if v_operator = v_comparison and v_operator = p_condition ->> 'operator' then v_known := v_matching; end if;
  return row(
    p_rule,
    p_is_deny,
    coalesce(v_known, '{}'),
    coalesce(v_matching, '{}'),
    v_operator <> v_comparison,
    v_operator <> p_condition ->> 'operator'
  )::access_condition;
end $$;
