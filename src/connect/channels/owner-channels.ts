// Gives each new workspace a channel, so that its first incident reaches a person: e-mails to the first of its Admins
// for whose address an identity provider or the operator has vouched. It is made once, and the person may change or
// delete it.
import { type SQL, sql } from 'drizzle-orm'
import { newChannelToken } from '../../kernel/crypto/crypto.ts'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { journalTenantEvents, setClock, setSystemSettings } from '../../kernel/db/journal.ts'
import { createdMembers } from '../../kernel/db/recorded-changes.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { ADMIN } from '../../people/access/built-in-roles.ts'
import { RECORDED, sealCredentials } from './channels.ts'

const NAME = 'E-mail to the first Admin'
const MAX_WORKSPACES = 100
/** A workspace without such a person for this long stays as it is. So do those that are older than the feature. */
const NEW = sql`interval '30 days'`

const HAS_CHANNEL = sql`exists (select from channels c where c.tenant_id = w.id and c.run_rule_id is null)`

/** `w` is the workspace. A person whose roles access policies limit gets none. */
const OWNER = sql`(
    select m.id
    from workspace_members wm
    join members m on m.id = wm.member_id
    where wm.tenant_id = w.id and wm.role_id = ${ADMIN}::uuid
      and (
        exists (select from identities i where i.member_id = m.id)
        or exists (select from sessions s where s.member_id = m.id and s.is_verified)
      )
      and not has_rules(policy_roles(null, m.id, w.id), w.organization_id)
    order by wm.created_at, wm.id
    limit 1
  )`

const withoutChannel = (condition: SQL) => sql<Row>`
  select w.id, o.member_id
  from workspaces w
  cross join lateral (select ${OWNER} as member_id) o
  where w.owner_channel_at is null and w.created_at > clock() - ${NEW} and ${condition}
    and (o.member_id is not null or ${HAS_CHANNEL})
  order by w.created_at
  limit ${MAX_WORKSPACES}`

/** One of two instances at once adds it. A workspace that has channels is only marked. */
const addChannel = (
  workspace: string,
  member: string | null,
  values: Record<'id' | 'credentials' | 'hash', string>,
) => {
  const created: SQL = sql`
    select tenant_id, organization_id, 'channel.created' as type, id as subject_id, '{}'::json as data,
      ${createdMembers(RECORDED, sql`added`)} as changes
    from added`
  return sql<Row>`
    with marked as (
      update workspaces w
      set owner_channel_at = clock()
      where w.id = ${workspace}::uuid and w.owner_channel_at is null
      returning w.id, w.organization_id, ${HAS_CHANNEL} as has_channel
    ),
    added as (
      insert into channels (
        id, organization_id, tenant_id, name, kind, member_id, config, credentials, unsubscribe_hash, is_default,
        deploys, position
      )
      select ${values.id}::uuid, w.organization_id, w.id, ${NAME}, 'email', m.id,
        jsonb_build_object('address', m.email), ${values.credentials}, ${values.hash}, true, 'failed',
        coalesce((select j.seq from journals j where j.scope_id = w.id), 0)
      from marked w
      join members m on m.id = ${member}::uuid and m.organization_id = w.organization_id
      where not w.has_channel
      returning *
    )
    select ${journalTenantEvents(created)}`
}

/** `condition`: on the workspace `w`. */
export async function addOwnerChannels({ platform, database, sealer }: Services, condition: SQL): Promise<void> {
  if (!platform.sendMail) return
  const [, rows] = (await runAsSystem(database, setClock(platform), withoutChannel(condition))) as [
    unknown,
    [workspace: string, member: string | null][],
  ]
  for (const [workspace, member] of rows) {
    const id = crypto.randomUUID()
    const unsubscribe = newChannelToken()
    const credentials = await sealCredentials({ sealer }, id, { unsubscribe })
    const settings = setSystemSettings(platform, `owner-channel-${id}`)
    const values = { id, credentials, hash: sha256Hex(unsubscribe) }
    await runAsSystem(database, settings, addChannel(workspace, member, values))
  }
}
