-- Interruptions and overdue deadlines, as functions that move revisions like a report does; and the order of two locks.

-- ------------------------------------------------------------ Interruptions
create function interrupt_revision(p_deployment uuid, p_revision uuid, p_message text, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql as $$
declare
  v_before deployments;
  d deployments;
  r revisions;
  v_next revisions;
begin
  v_before := lock_deployment(p_deployment);
  select n.*
  into r
  from revisions n
  where n.id = p_revision and n.deployment_id = v_before.id and n.tenant_id = current_tenant();
  if not found then return; end if;
  if not is_in_queue(r.status) then
    perform refuse('revision_not_interruptible', r.status || ' to INTERRUPTED');
  end if;

  v_next := r;
  v_next.status := 'INTERRUPTED';
  v_next.status_message := p_message;
  d := follow_revision(v_before, r, v_next);
  perform write_moved_revisions(array[v_next]);
  answer := to_json(v_next);
  has_webhooks := conclude_write(
    answer,
    array(
      select (e.type, e.subject_id, e.data, e.changes)::new_event
      from unnest(
        revision_moved(r, v_next, json_build_object('deployment_id', d.id, 'message', p_message))
        || deployment_events(v_before, d)
      ) e
    ),
    p_request
  );
  perform write_moved_deployments(array[d]);
  return next;
end $$;
--> statement-breakpoint

-- ------------------------------------------------------------ Overdue deadlines
-- Fails the revisions that are past the deadline of their status: `DEADLINES` of src/deployments/lifecycle.ts, with
-- `after` in milliseconds. One whose listener fell silent during its deploy gets `p_lost` instead. Returns the
-- deployments.
create function fail_overdue_revisions(
  p_deadlines jsonb, p_lost jsonb, p_silent_after interval, p_limit integer
) returns uuid[]
language plpgsql as $$
declare
  -- A deployment that another transaction is changing waits for the next call.
  v_ids uuid[] := array(
    select c.id
    from deployments c
    where c.id in (
      select r.deployment_id
      from revisions r
      join jsonb_to_recordset(p_deadlines) l(status text, after bigint) on l.status = r.status
      -- The condition of the index `revisions_pending`.
      where r.status in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING')
        and r.status_since <= clock() - l.after * interval '1 millisecond'
    )
    order by c.id
    limit p_limit
    for update skip locked
  );
  v_before deployments;
  d deployments;
  v record;
  r revisions;
  v_next revisions;
  v_revisions revisions[] := '{}';
  v_deployments deployments[] := '{}';
  v_events tenant_event[] := '{}';
begin
  for v_before in select c.* from deployments c where c.id = any(v_ids) order by c.id loop
    d := v_before;
    for v in
      select
        n as revision,
        -- A listener that never polled is silent from its registration on.
        case
          when n.status = 'DEPLOYING' and coalesce(s.last_seen_at, s.created_at) <= clock() - p_silent_after then p_lost
          else l.outcome
        end as outcome
      from revisions n
      join jsonb_array_elements(p_deadlines) l(outcome) on l.outcome ->> 'status' = n.status
      left join listeners s on s.id = d.listener_id
      where n.deployment_id = d.id
        and n.status_since <= clock() - (l.outcome ->> 'after')::bigint * interval '1 millisecond'
      order by n.number
    loop
      r := v.revision;
      v_next := r;
      v_next.status := v.outcome ->> 'becomes';
      v_next.status_message := v.outcome ->> 'message';
      d := follow_revision(d, r, v_next);
      v_revisions := v_revisions || v_next;
      v_events := v_events || revision_moved(
        r, v_next, json_build_object('deployment_id', d.id, 'message', v_next.status_message)
      );
    end loop;
    v_deployments := v_deployments || d;
    v_events := v_events || deployment_events(v_before, d);
  end loop;
  perform write_moved_revisions(v_revisions);
  perform journal_tenant_events(v_events, null);
  perform write_moved_deployments(v_deployments);
  return v_ids;
end $$;
--> statement-breakpoint

-- ------------------------------------------------------------ Journals before cursors
-- Locks the journals of the workspaces before the cursors of the listeners, whoever writes. A statement that writes
-- events beside its change has them already. A function may change the deployment first.
grant create on schema public to slipway_system;
--> statement-breakpoint
set local role slipway_system;
--> statement-breakpoint
create or replace function sync_after_update() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_items sync_items[];
  v_tenants uuid[];
begin
  select
    array_agg((a.id, a.listener_id, 0, a.generation)::sync_items),
    -- A listener that adopts deployments writes no events of theirs.
    array_agg(distinct a.tenant_id) filter (where a.generation <> b.generation)
  into v_items, v_tenants
  from after a
  join before b on b.id = a.id
  where a.listener_id is not null
    and (a.generation <> b.generation or a.listener_id is distinct from b.listener_id);
  if v_items is not null then
    perform from journals j where j.scope_id = any(v_tenants) order by j.scope_id for no key update;
    perform record_sync_items(v_items);
  end if;
  return null;
end $$;
--> statement-breakpoint
reset role;
--> statement-breakpoint
revoke create on schema public from slipway_system;
