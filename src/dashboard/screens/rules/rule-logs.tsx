// The log of a rule, run by run.
import { useRef } from 'preact/hooks'
import { useRuleLogs } from '../../api/rule-logs.ts'
import { useRowKeys } from '../../commands/commands.ts'
import { Card } from '../../parts/card.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Note } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, More, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { Link } from '../../router/links.tsx'
import type { Rule } from './actions.ts'
import { listDone } from './rule-state.ts'

export function RuleLogs({ workspace, rule }: { workspace: string; rule: Rule }) {
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = useRuleLogs(workspace, rule.id)
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'run')
  return (
    <Card title="Log" aside={items && items.length > 0 && 'Newest first, kept for 30 days'}>
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      {!items && !error && <Skeleton lines={4} />}
      {items?.length === 0 && (
        <Body>
          <Note>
            {rule.is_enabled
              ? 'No entries yet. The rule evaluates completed runs once a minute.'
              : 'No entries yet. The rule is paused.'}
          </Note>
        </Body>
      )}
      {items && items.length > 0 && (
        <Table
          caption="Log of the rule, newest first"
          tableRef={table}
          columns={[{ label: 'Run', width: '34%' }, { label: 'Action' }, { label: 'Time', width: '96', isEnd: true }]}
        >
          {items.map(log => (
            <Row key={log.run_id}>
              <Cell detail={log.run_type}>
                <Link to={`/traces/run/${log.run_id}`} data-row class={rowLink}>
                  {log.run_name ?? log.run_id}
                </Link>
              </Cell>
              <Cell
                detail={listDone(log)
                  .flatMap(({ detail }) => detail ?? [])
                  .join(', ')}
              >
                {listDone(log).map(({ what, state }) => (
                  <StateLabel key={what} state={{ ...state, word: `${what}: ${state.word.toLowerCase()}` }} />
                ))}
              </Cell>
              <Cell isEnd>
                <Ago time={log.application_time} />
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </Card>
  )
}
