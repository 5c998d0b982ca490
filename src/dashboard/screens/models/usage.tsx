// The usage of models by day, and the budgets that limit it.
import { useRead } from '../../api/queries.ts'
import { formatCost, formatCount, plural } from '../../format/amount.ts'
import { Card } from '../../parts/card.tsx'
import { ChartFigure, Key, NoData, StackedBars } from '../../parts/chart.tsx'
import { Chip } from '../../parts/field.tsx'
import { Stack } from '../../parts/page.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Cell, Row, Table } from '../../parts/table.tsx'
import { useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { Budgets } from './budgets.tsx'
import { ModelsFrame } from './frame.tsx'
import { countTokens, type DaySum, listDays, type Usage } from './model-state.ts'

/** Calls have no events. */
const READ_EVERY_MS = 15_000
const DAY_MS = 86_400_000
const RANGES = [
  { name: '7', label: '7 days' },
  { name: '', label: '30 days' },
  { name: '90', label: '90 days' },
] as const

export default function UsagePage({ workspace, me }: ScreenProps) {
  const [days, setDays] = useFilter('days')
  const count = Number(RANGES.find(({ name }) => name === days)?.name || 30)
  const start = new Date(Date.now() - (count - 1) * DAY_MS).toISOString().slice(0, 10)
  const { data, error, refetch } = useRead(
    workspace,
    'GET /v1/model-usage',
    { query: { start, limit: 1 } },
    { everyMs: READ_EVERY_MS },
  )
  return (
    <ModelsFrame
      tab="/usage"
      actions={RANGES.map(({ name, label }) => (
        <Chip key={name} pressed={name === (days === '30' ? '' : days)} onPress={() => setDays(name)}>
          {label}
        </Chip>
      ))}
    >
      <Stack>
        {error && !data && <Problem error={error} onRetry={() => void refetch()} />}
        {!data && !error && <Skeleton lines={8} />}
        {data && <CallsChart usage={data} />}
        {data && data.by_caller.length > 0 && <Users usage={data} />}
        <Budgets workspace={workspace} me={me} />
      </Stack>
    </ModelsFrame>
  )
}

const describeDay = (day: DaySum): string =>
  `${day.day}: ${plural(day.calls, 'call')}, ${formatCount(day.failed)} failed, ${formatCount(countTokens(day))} tokens`

function CallsChart({ usage }: { usage: Usage }) {
  const days = listDays(usage)
  const { calls, failed, cost_usd } = usage.total
  return (
    <ChartFigure
      title="Calls by day"
      aside={
        <>
          {formatCount(countTokens(usage.total))} tokens, {cost_usd === null ? 'no prices' : formatCost(cost_usd)}
        </>
      }
      value={plural(calls, 'call')}
      columns={['Day (UTC)', 'Calls', 'Failed', 'Tokens', 'Cost']}
      rows={() =>
        days
          .map(one => ({
            label: one.day,
            cells: [
              formatCount(one.calls),
              formatCount(one.failed),
              formatCount(countTokens(one)),
              formatCost(one.cost_usd ?? 0),
            ],
          }))
          .toReversed()
      }
    >
      {calls === 0 ? (
        <NoData>No model calls in this period.</NoData>
      ) : (
        <>
          <StackedBars
            label={`${plural(calls, 'call')}, of which ${formatCount(failed)} failed, from ${usage.start} to ${usage.end}.`}
            bars={days.map(one => ({
              label: describeDay(one),
              parts: [
                ['accent', one.calls - one.failed],
                ['bad', one.failed],
              ],
            }))}
          />
          <Key
            items={[
              ['accent', 'Answered'],
              ['bad', 'Failed'],
            ]}
          />
        </>
      )}
    </ChartFigure>
  )
}

const Users = ({ usage }: { usage: Usage }) => (
  <Card title="Calls by model and deployment">
    <Table
      caption="Models and deployments, the most calls first"
      columns={[
        { label: 'Model', width: '40%' },
        { label: 'Calls', width: '20%' },
        { label: 'Tokens' },
        { label: 'Cost', width: '96', isEnd: true },
      ]}
    >
      {usage.by_caller.map(row => (
        <Row key={`${row.configuration_id} ${row.deployment_id}`}>
          <Cell detail={row.deployment_name ?? row.deployment_id ?? 'No deployment'}>{row.configuration_name}</Cell>
          <Cell detail={row.failed > 0 && `${formatCount(row.failed)} failed`}>{formatCount(row.calls)}</Cell>
          <Cell isWideOnly>{formatCount(countTokens(row))}</Cell>
          <Cell isEnd>{row.cost_usd === null ? 'No price' : formatCost(row.cost_usd)}</Cell>
        </Row>
      ))}
    </Table>
  </Card>
)
