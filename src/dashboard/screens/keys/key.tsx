// A key: permissions, use, and the effects of revoking it.
import { useLocation } from 'wouter-preact'
import { explainMissing } from '../../api/permissions.ts'
import { isMissing, useRead } from '../../api/queries.ts'
import { readAgain } from '../../api/read-again.ts'
import { ActionButton } from '../../parts/action.tsx'
import { ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Facts, Foot } from '../../parts/sections.tsx'
import { Badge } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, toAddress } from '../../router/links.tsx'
import { useRoles } from '../members/use-roles.ts'
import { PermissionList } from '../roles/permission-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { describeOwner, endOf, mayManageOrganizationKeys, revokeKey } from './actions.ts'
import { Expiry } from './expiry.tsx'

export default function KeyPage({ workspace, params, me }: ScreenProps<{ key: string }>) {
  const ref = { params: { key_id: params.key } }
  const missing = explainMissing(me, workspace, 'api-keys:read')
  const mayReadAll = mayManageOrganizationKeys(me)
  const here = useRead(workspace, 'GET /workspaces/current/api-keys/{key_id}', ref, { enabled: !missing })
  const isElsewhere = mayReadAll && (missing !== undefined || isMissing(here.error))
  const all = useRead(workspace, 'GET /orgs/current/api-keys/{key_id}', ref, { enabled: isElsewhere })
  const { data: key, error, refetch } = isElsewhere ? all : here
  const roles = useRoles(workspace)
  const [, navigate] = useLocation()
  useCrumbs({ label: 'Keys', to: '/keys' }, { label: key?.description ?? '…' })
  if (missing && !mayReadAll) return <Empty title="You cannot see keys">{missing}</Empty>
  if (isMissing(error))
    return (
      <Empty title="Key not found" action={<ButtonLink href={toAddress('/keys')}>Open the keys</ButtonLink>}>
        The key was revoked, or it belongs to another workspace. The audit log keeps its entries.
      </Empty>
    )
  if (error && !key) return <Problem error={error} onRetry={() => void refetch()} />
  if (!key) return <Skeleton lines={8} />
  const role = roles.all.find(({ id }) => id === key.role_id)
  const toList = () => {
    void readAgain('/api-keys')
    navigate(toAddress('/keys'))
  }
  return (
    <Stack>
      <PageHead
        title={key.description}
        state={key.id === me.api_key?.id && <Badge tone="idle">This session</Badge>}
        actions={<ActionButton action={revokeKey({ me, workspace }, key, key.descendants)} onDone={toList} />}
        meta={[<code key="hint">{key.hint}</code>, describeOwner(key)]}
      />
      <Card title="Use">
        <Body>
          <Facts
            facts={[
              ['Last used', key.last_used_at ? <Ago time={key.last_used_at} suffix=" ago" /> : 'Never'],
              ['Expires', <Expiry key="ends" time={endOf(key)} />],
              ['Created', <Ago key="created" time={key.created_at} suffix=" ago" />],
              ['Created with', key.created_by && <Link to={`/keys/${key.created_by}`}>another key</Link>],
              ['Keys created with this key', key.descendants > 0 && `${key.descendants}, which are revoked with it`],
              [
                'Belongs to',
                key.member && (
                  <>
                    <Link to={`/members/${key.member.id}`}>{key.member.email}</Link>
                    <span>The key never has more permissions than this member.</span>
                  </>
                ),
              ],
              [
                'Program',
                key.client && <code>{key.client.id.startsWith('http') ? key.client.id : 'Self-registered'}</code>,
              ],
              ['Agent of', key.listener_id && <Link to={`/listeners/${key.listener_id}`}>a listener</Link>],
            ]}
          />
        </Body>
      </Card>
      <Card title="Permissions" aside={role && <Link to={`/roles/${role.id}`}>{role.display_name}</Link>}>
        <Body>
          <PermissionList permissions={key.permissions ?? role?.permissions ?? []} />
        </Body>
      </Card>
      <Foot>
        <p>
          Id <code>{key.id}</code>
        </p>
        <p>
          <Link to={`/audit?actor_id=${key.id}`}>Activity of the key</Link>
          {' · '}
          <Link to={`/audit?subject_id=${key.id}`}>History of this</Link>
        </p>
      </Foot>
    </Stack>
  )
}
