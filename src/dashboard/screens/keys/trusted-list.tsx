// The issuers whose tokens jobs of a CI exchange for keys of the workspace.
import { useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { explainMissing } from '../../api/permissions.ts'
import { usePages } from '../../api/queries.ts'
import { useCommands, useRowKeys } from '../../commands/commands.ts'
import { ButtonLink } from '../../parts/button.tsx'
import { Icon } from '../../parts/icon.tsx'
import { CreateLink, ListCard } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Badge } from '../../parts/state.tsx'
import { Cell, More, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { Link, toAddress } from '../../router/links.tsx'
import { useRoles } from '../members/use-roles.ts'
import type { ScreenProps } from '../screen-props.ts'
import { KeysFrame } from './frame.tsx'

const NEW = '/keys/trusted/new'
/** An exchange has an event of the key only. */
const READ_EVERY_MS = 60_000

export default function TrustedIssuerList({ workspace, me }: ScreenProps) {
  const [, navigate] = useLocation()
  const unreadable = explainMissing(me, workspace, 'api-keys:read')
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = usePages(
    workspace,
    'GET /v2/trusted-issuers',
    { query: { limit: 100 } },
    { everyMs: READ_EVERY_MS },
  )
  const roles = useRoles(workspace)
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'trusted issuer')
  const missing = explainMissing(me, workspace, 'api-keys:create')
  const create = () => navigate(toAddress(NEW))
  useCommands(missing ? [] : [{ id: 'new', label: 'Trust an issuer', kind: 'action', keys: 'n', run: create }])
  return (
    <KeysFrame
      tab="/trusted"
      actions={
        <CreateLink href={toAddress(NEW)} missing={missing}>
          Trust issuer
        </CreateLink>
      }
    >
      {unreadable && <Empty title="You cannot see trusted issuers">{unreadable}</Empty>}
      {!unreadable && error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      {!unreadable && (
        <ListCard>
          {!items && !error && <Skeleton lines={4} />}
          {items?.length === 0 && (
            <Empty
              title="No issuer is trusted yet"
              action={!missing && <ButtonLink href={toAddress(NEW)}>Trust an issuer</ButtonLink>}
            >
              GitHub Actions, GitLab and Kubernetes give each job a signed token. A job exchanges it for a key of 15
              minutes, so that no key is stored there.
            </Empty>
          )}
          {items && items.length > 0 && (
            <Table
              caption="Trusted issuers, newest first"
              tableRef={table}
              columns={[
                { label: 'Name', width: '30%' },
                { label: 'Tokens of' },
                { label: 'Role', width: '16%' },
                { label: 'Last used', width: '104', isEnd: true },
              ]}
            >
              {items.map(trusted => (
                <Row key={trusted.id}>
                  <Cell icon={<Icon name="key" />} detail={trusted.issuer}>
                    <Link to={`/keys/trusted/${trusted.id}`} data-row class={rowLink} title={trusted.name}>
                      {trusted.name}
                    </Link>
                  </Cell>
                  <Cell>
                    <code title={trusted.subject}>{trusted.subject}</code>
                  </Cell>
                  <Cell>
                    {trusted.state === 'ended' ? <Badge tone="bad">Ended</Badge> : roles.nameOf(trusted.role_id)}
                  </Cell>
                  <Cell isEnd>{trusted.last_used_at ? <Ago time={trusted.last_used_at} /> : 'Never'}</Cell>
                </Row>
              ))}
            </Table>
          )}
        </ListCard>
      )}
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </KeysFrame>
  )
}
