// The snapshots of a deployment. Taking one is a job, and so is restoring it.
import { explainMissing } from '../../api/permissions.ts'
import { usePages } from '../../api/queries.ts'
import { formatBytes } from '../../format/size.ts'
import type { Deployment } from '../../format/state.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Card } from '../../parts/card.tsx'
import { CommandLine, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Note } from '../../parts/sections.tsx'
import { Cell, More, Row, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { restoreSnapshot } from './actions.ts'

const READ_EVERY_MS = 10_000
const PAGE_SIZE = 10

const REASONS: Record<string, string> = {
  manual: 'By hand',
  schedule: 'By a schedule',
  automatic: 'By the agent',
  before_release: 'Before a release command',
  before_restore: 'Before a restore',
  last: 'Before it was removed',
}

type Props = { workspace: string; deployment: Deployment; me: ScreenProps<object>['me'] }

export function Snapshots({ workspace, deployment, me }: Props) {
  const missing = explainMissing(me, workspace, 'deployments:update')
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = usePages(
    workspace,
    'GET /v2/snapshots',
    { query: { deployment_id: deployment.id, limit: PAGE_SIZE } },
    { everyMs: READ_EVERY_MS },
  )
  return (
    <Card title="Snapshots">
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      {!items && !error && <Skeleton lines={2} />}
      {items?.length === 0 && (
        <Body>
          <Note>A snapshot is a copy of a disk or the database.</Note>
          <CommandLine command={`slipway snapshots take ${deployment.name} disk:NAME`} />
        </Body>
      )}
      {items && items.length > 0 && (
        <Table
          caption="Snapshots, newest first"
          columns={[
            { label: 'Store', width: '34%' },
            { label: 'Reason', width: '26%' },
            { label: 'Size' },
            { label: 'Change', width: '120', isEnd: true },
            { label: 'Taken', width: '96', isEnd: true },
          ]}
        >
          {items.map(one => (
            <Row key={one.id}>
              <Cell detail={<code>{one.id}</code>}>{one.store}</Cell>
              <Cell>{REASONS[one.reason] ?? one.reason}</Cell>
              <Cell>{formatBytes(one.size_bytes)}</Cell>
              <Cell isEnd>
                <ActionButton small action={restoreSnapshot(one, missing)} />
              </Cell>
              <Cell isEnd>
                <Ago time={one.taken_at} />
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </Card>
  )
}
