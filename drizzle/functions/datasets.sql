-- Datasets, annotation queues and automation rules.

-- Compares references with the row's own workspace, for every writer.
create function check_dataset_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  if exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
    or exists (select from projects p where p.id = new.baseline_experiment_id and p.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'a dataset refers to a row of another workspace';
  end if;
  return null;
end $$;
create trigger check_references
  after insert or update of tag_value_ids, baseline_experiment_id on datasets
  for each row execute function check_dataset_references();

-- An hour later, because a statement that runs now may still give an object to another example.
create function check_objects_of_deleted_examples() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  update example_objects o
  set check_at = clock() + interval '1 hour'
  from (select distinct unnest(object_ids) as id from deleted) d
  where o.id = d.id;
  return null;
end $$;
create trigger check_objects
  after delete on examples
  referencing old table as deleted
  for each statement execute function check_objects_of_deleted_examples();

-- `p_limit` is the largest sum of bytes that the attachments of a workspace may have.
create function require_attachment_room(p_tenant uuid, p_bytes bigint, p_limit bigint) returns boolean
language plpgsql volatile cost 20000 set plan_cache_mode = force_generic_plan as $$
declare
  v_used bigint;
begin
  perform pg_advisory_xact_lock(hashtextextended('attachments of ' || p_tenant, 0));
  select coalesce(sum(bytes), 0)
  into v_used
  from example_objects
  where tenant_id = p_tenant;
  if v_used + p_bytes > p_limit then perform refuse('uploads_full'); end if;
  return true;
end $$;

-- Compares references with the row's own workspace, for every writer.
create function check_rule_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  if exists (select from projects p where p.id = new.session_id and p.tenant_id <> new.tenant_id)
    or exists (
      select from datasets d
      where d.id in (new.dataset_id, new.add_to_dataset_id) and d.tenant_id <> new.tenant_id
    )
  then
    raise exception using errcode = '42501', message = 'a rule refers to a row of another workspace';
  end if;
  return null;
end $$;
create trigger check_references
  after insert or update of session_id, dataset_id, add_to_dataset_id on run_rules
  for each row execute function check_rule_references();

-- Numbers are taken under a lock that the readers of `finished_runs` wait for: see `lockFinishedRuns()`. Runs without
-- a name are not shown yet, so the post that brings it comes after them.
create function queue_finished_runs() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_tenant uuid;
begin
  for v_tenant in
    select tenant_id
    from (
      select distinct tenant_id
      from added
      where name is not null and (end_time is not null or error is not null)
    ) t
    where exists (select from run_rules r where r.tenant_id = t.tenant_id and r.is_enabled)
      or drains_traces(t.tenant_id)
    order by tenant_id
  loop
    perform pg_advisory_xact_lock_shared(hashtextextended('finished runs of ' || v_tenant, 0));
    insert into finished_runs (organization_id, tenant_id, session_id, run_id, trace_id, order_time)
    select a.organization_id, a.tenant_id, a.session_id, a.id, a.trace_id, a.order_time
    from added a
    where a.tenant_id = v_tenant
      and a.name is not null
      and a.run_type is not null
      and (a.end_time is not null or a.error is not null)
      and a.session_id in (
        select p.id
        from (select distinct session_id from added where tenant_id = v_tenant) s
        join projects p on p.id = s.session_id
        where drains_traces(v_tenant) or exists (
          select from run_rules r
          where r.tenant_id = v_tenant
            and r.is_enabled
            and (r.session_id = p.id or r.dataset_id = p.reference_dataset_id)
        )
      );
  end loop;
  return null;
end $$;
create trigger queue_inserted_runs
  after insert on runs
  referencing new table as added
  for each statement execute function queue_finished_runs();
create trigger queue_updated_runs
  after update on runs
  referencing new table as added
  for each statement execute function queue_finished_runs();

-- A rule may filter by feedback, which comes after the run has ended. Feedback names the run's project: runs may be
-- stored elsewhere. A run that has not ended is passed over.
create function queue_runs_with_feedback() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_tenant uuid;
begin
  for v_tenant in
    select tenant_id
    from (select distinct tenant_id from added where run_id is not null and is_attached) t
    where exists (select from run_rules r where r.tenant_id = t.tenant_id and r.is_enabled)
    order by tenant_id
  loop
    perform pg_advisory_xact_lock_shared(hashtextextended('finished runs of ' || v_tenant, 0));
    insert into finished_runs (organization_id, tenant_id, session_id, run_id, trace_id, order_time)
    select distinct on (f.run_id)
      f.organization_id, f.tenant_id, f.session_id, f.run_id, f.trace_id, coalesce(f.start_time, f.created_at)
    from added f
    join projects p on p.tenant_id = v_tenant and p.id = f.session_id
    where f.tenant_id = v_tenant
      and f.is_attached
      and f.run_id is not null
      and f.trace_id is not null
      and exists (
        select from run_rules q
        where q.tenant_id = v_tenant
          and q.is_enabled
          and (q.session_id = p.id or q.dataset_id = p.reference_dataset_id)
      )
    order by f.run_id;
  end loop;
  return null;
end $$;
create trigger queue_runs_with_new_feedback
  after insert on feedbacks
  referencing new table as added
  for each statement execute function queue_runs_with_feedback();
create trigger queue_runs_with_changed_feedback
  after update on feedbacks
  referencing new table as added
  for each statement execute function queue_runs_with_feedback();

-- Compares references with the row's own workspace, for every writer.
create function check_annotation_queue_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  if exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
    or exists (select from datasets d where d.id = new.default_dataset_id and d.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'an annotation queue refers to a row of another workspace';
  end if;
  return null;
end $$;
create trigger check_references
  after insert or update of tag_value_ids, default_dataset_id on annotation_queues
  for each row execute function check_annotation_queue_references();

create function check_rule_queue() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  if exists (
    select from annotation_queues q
    where q.id = new.add_to_annotation_queue_id and q.tenant_id <> new.tenant_id
  ) then
    raise exception using errcode = '42501', message = 'a rule refers to a queue of another workspace';
  end if;
  return null;
end $$;
create trigger check_queue
  after insert or update of add_to_annotation_queue_id on run_rules
  for each row execute function check_rule_queue();

-- Numbers are taken under the lock that the trigger of `runs` takes. Runs that have not ended are passed over when
-- their rule reads them.
create function queue_runs(p_runs json) returns void
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  perform pg_advisory_xact_lock_shared(hashtextextended('finished runs of ' || current_tenant(), 0));
  insert into finished_runs (organization_id, tenant_id, session_id, run_id, trace_id, order_time)
  select current_organization(), current_tenant(), p.id, r.id, r.trace_id, r.order_time
  from json_to_recordset(p_runs) as r(session_id uuid, id uuid, trace_id uuid, order_time timestamptz)
  join projects p on p.tenant_id = current_tenant() and p.id = r.session_id
  where drains_traces(current_tenant()) or exists (
    select from run_rules q
    where q.tenant_id = current_tenant()
      and q.is_enabled
      and (q.session_id = p.id or q.dataset_id = p.reference_dataset_id)
  );
end $$;
grant execute on function queue_runs(json) to slipway_app;

create function check_rule_evaluator() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  if exists (select from evaluators e where e.id = new.evaluator_id and e.tenant_id <> new.tenant_id) then
    raise exception using errcode = '42501', message = 'a rule refers to a row of another workspace';
  end if;
  return null;
end $$;
create trigger check_evaluator
  after insert or update of evaluator_id on run_rules
  for each row execute function check_rule_evaluator();
