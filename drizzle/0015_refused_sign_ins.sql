-- Anyone can be refused, and must not fill the journal's day: of an organization, at most 60 refusals an hour are
-- journaled. The subject is the member as whom the visitor tried to sign in, or else the organization.
create function journal_refused_sign_in(p_organization uuid, p_member uuid, p_data json, p_limit bigint) returns void
language plpgsql as $$
declare
  v_attempts integer;
begin
  -- Without a row lock, so that a flood does not queue for it.
  if exists (
    select from attempt_windows w
    where w.key_id = p_organization and w.started_at > clock() - interval '1 hour' and w.attempts >= 60
  ) then
    return;
  end if;
  insert into attempt_windows as w (key_id, started_at, attempts)
  values (p_organization, clock(), 1)
  on conflict (key_id) do update set
    attempts = excluded.attempts + case when w.started_at > clock() - interval '1 hour' then w.attempts else 0 end,
    started_at = case when w.started_at > clock() - interval '1 hour' then w.started_at else excluded.started_at end
  returning attempts into v_attempts;
  if v_attempts > 60 then return; end if;
  perform
    set_config('app.organization_id', p_organization::text, true),
    set_config('app.tenant_id', '', true),
    set_config('app.actor_kind', 'visitor', true),
    set_config('app.actor_id', '', true),
    set_config('app.actor_name', '', true);
  begin
    perform journal(
      array['session.refused'], array[coalesce(p_member, p_organization)], array[p_data], array[null::json], p_limit, 0
    );
  exception when sqlstate 'SW000' then
    -- The journal's day is full. The visitor must not learn from the answer that the address is a member's.
    null;
  end;
end $$;
--> statement-breakpoint
-- Null if there is no such link, if it was used, or if it has expired.
create or replace function use_sign_in_link(p_link_hash text, p_token_hash text, p_limit bigint) returns sessions
language plpgsql as $$
declare
  v_link sign_in_links;
begin
  -- First the member, as its deletion does.
  perform from members m
  where m.id = (select l.member_id from sign_in_links l where l.token_hash = p_link_hash)
  for key share;
  select * into v_link from sign_in_links where token_hash = p_link_hash for update;
  if not found then return null; end if;
  if v_link.used_at is not null or v_link.expires_at <= clock() then
    perform journal_refused_sign_in(
      v_link.organization_id, v_link.member_id,
      json_build_object('method', 'link', 'reason', case when v_link.used_at is null then 'expired' else 'used' end),
      p_limit
    );
    return null;
  end if;
  update sign_in_links set used_at = clock() where id = v_link.id;
  return open_session(v_link.member_id, p_token_hash, 'link', p_limit);
end $$;
--> statement-breakpoint
-- Signs in the person that an identity provider vouches for. A bound subject is enough. Otherwise the verified address
-- has to be a member's, or of a domain whose people may join `p_join`. With the first of `p_roles` that the
-- organization has, the member gets that role. Returns the session, or why there is none.
create or replace function sign_in_by_identity(
  p_issuer text,
  p_subject text,
  p_email text,
  p_is_verified boolean,
  p_name text,
  p_join uuid,
  p_roles uuid[],
  p_token_hash text,
  p_limit bigint
) returns json
language plpgsql as $$
declare
  v_found record;
  v_member uuid;
  v_refusal json;
  v_wait text;
  v_role uuid;
  v_changes json;
begin
  for v_found in
    select m.id, m.organization_id
    from members m
    where p_is_verified and m.email = p_email
      and not exists (select from identities i where i.member_id = m.id and i.issuer = p_issuer)
    order by m.id
    for no key update
  loop
    begin
      insert into identities (organization_id, member_id, issuer, subject)
      values (v_found.organization_id, v_found.id, p_issuer, p_subject)
      on conflict do nothing;
      if found then
        perform journal_of_identity(v_found.id, p_issuer, p_subject, p_limit);
      end if;
    exception when sqlstate 'SW000' then
      -- A full journal keeps the person out of its own organization only.
      get stacked diagnostics v_wait = pg_exception_detail;
    end;
  end loop;

  -- Of several organizations, the one where the person was last signed in.
  select i.member_id
  into v_member
  from identities i
  join members m on m.id = i.member_id
  where i.issuer = p_issuer and i.subject = p_subject
  order by (select max(s.created_at) from sessions s where s.member_id = m.id) desc nulls last, m.created_at, m.id
  limit 1;

  if not found then
    if v_wait is not null then perform refuse('journal_full', v_wait); end if;
    v_refusal := json_build_object(
      'method', 'oidc', 'reason', case when p_is_verified then 'other_subject' else 'email_unverified' end,
      'issuer', p_issuer, 'subject', p_subject, 'email', p_email
    );
    for v_found in
      select m.id, m.organization_id
      from members m
      where m.email = p_email
      order by m.id
    loop
      perform journal_refused_sign_in(v_found.organization_id, v_found.id, v_refusal, p_limit);
    end loop;
    if found then
      return json_build_object('refusal', case when p_is_verified then 'identity_unknown' else 'email_unverified' end);
    end if;
    if not p_is_verified then
      perform journal_refused_sign_in(o.id, null, v_refusal, p_limit)
      from organizations o
      where o.id = p_join;
      return json_build_object('refusal', 'email_unverified');
    end if;
    if p_join is null or not exists (select from organizations where id = p_join) then
      return json_build_object('refusal', 'identity_unknown');
    end if;
    insert into members (organization_id, email, full_name, role_id)
    values (p_join, p_email, p_name, '00000000-0000-4000-8000-000000000005')
    on conflict (organization_id, email) do update set email = excluded.email
    returning id, changed_members(null, jsonb_build_object('email', email, 'full_name', full_name, 'role_id', role_id))
    into v_member, v_changes;
    insert into identities (organization_id, member_id, issuer, subject)
    values (p_join, v_member, p_issuer, p_subject)
    on conflict do nothing;
    perform journal_of_member(v_member, 'member.added', json_build_object('email', p_email), v_changes, p_limit);
    perform journal_of_identity(v_member, p_issuer, p_subject, p_limit);
  end if;

  select r.id
  into v_role
  from unnest(p_roles) with ordinality as given(id, place)
  join members m on m.id = v_member
  join roles r on r.id = given.id and r.scope = 'organization'
    and (r.organization_id is null or r.organization_id = m.organization_id)
  order by given.place
  limit 1;
  select changed_members(jsonb_build_object('role_id', role_id), jsonb_build_object('role_id', v_role))
  into v_changes
  from members
  where id = v_member and role_id <> v_role
  for no key update;
  if found then
    begin
      update members
      set role_id = v_role, version = version + 1, updated_at = clock()
      where id = v_member;
      perform journal_of_member(v_member, 'member.updated', json_build_object('role_id', v_role), v_changes, p_limit);
    exception when sqlstate 'SW000' then
      -- The last Admin of the organization keeps the role, whatever the groups are.
      null;
    end;
  end if;
  return json_build_object('session', open_session(v_member, p_token_hash, 'oidc', p_limit));
end $$;
