-- Writes events into the journal of whoever asks, numbered in the order they are told in. A function, because Postgres keeps its plans:
-- written out in every change it was a third of what a patch costs the database.
create function journal(p_types text[], p_subjects uuid[], p_data json[]) returns bigint language plpgsql as $$
declare
  v_seq bigint;
begin
  insert into journals (scope_id, organization_id, seq) values (current_scope(), current_organization(), cardinality(p_subjects))
    on conflict (scope_id) do update set seq = journals.seq + excluded.seq returning seq into v_seq;
  insert into events (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, request_id, data)
    select current_scope(), v_seq - cardinality(p_subjects) + place, current_organization(), current_tenant(), type, subject,
      setting('actor_kind'), current_actor(), setting('request_id'), data
    from unnest(p_types, p_subjects, p_data) with ordinality told(type, subject, data, place);
  return v_seq;
end $$;
