// What calls of models used, day by day, and the budgets that limit it.
import { useRead } from '../../api/queries.ts'
import { formatCost, formatCount, plural } from '../../format/amount.ts'
import { ChartFigure, Key, NoData, StackedBars } from '../../parts/chart.tsx'
import { Chip } from '../../parts/field.tsx'
import { Stack } from '../../parts/page.tsx'
import { Card, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Cell, Row, Table } from '../../parts/table.tsx'
import { useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screens.tsx'
import { Budgets } from './budgets.tsx'
import { ModelsFrame } from './frame.tsx'
import { type DaySum, sumByDay, sumByUser, type Usage } from './model-state.ts'

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
    { query: { start } },
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
        {data && data.days.length > 0 && <Users usage={data} />}
        <Budgets workspace={workspace} me={me} />
      </Stack>
    </ModelsFrame>
  )
}

const describeDay = ({ day, calls, failed, tokens, cost }: DaySum): string =>
  `${day}: ${plural(calls, 'call')}, ${formatCount(failed)} failed, ${formatCount(tokens)} tokens, ${formatCost(cost)}`

function CallsChart({ usage }: { usage: Usage }) {
  const days = sumByDay(usage)
  const { calls, failed, input_tokens, output_tokens, cost_usd } = usage.total
  const tokens = input_tokens + output_tokens
  return (
    <ChartFigure
      title="Calls by day"
      aside={
        <>
          {formatCount(tokens)} tokens, {cost_usd === null ? 'no prices' : formatCost(cost_usd)}
        </>
      }
      value={plural(calls, 'call')}
      columns={['Day (UTC)', 'Calls', 'Failed', 'Tokens', 'Cost']}
      rows={() =>
        days
          .map(one => ({
            label: one.day,
            cells: [formatCount(one.calls), formatCount(one.failed), formatCount(one.tokens), formatCost(one.cost)],
          }))
          .toReversed()
      }
    >
      {calls === 0 ? (
        <NoData>No model was called in this time.</NoData>
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
  <Card title="Who called what">
    <Table
      caption="Models and deployments, the most calls first"
      columns={[
        { label: 'Model', width: '40%' },
        { label: 'Calls', width: '20%' },
        { label: 'Tokens' },
        { label: 'Cost', width: '96', isEnd: true },
      ]}
    >
      {sumByUser(usage).map(row => (
        <Row key={row.id}>
          <Cell detail={row.deployment ?? 'People and API keys'}>{row.model}</Cell>
          <Cell detail={row.failed > 0 && `${formatCount(row.failed)} failed`}>{formatCount(row.calls)}</Cell>
          <Cell isWideOnly>{formatCount(row.tokens)}</Cell>
          <Cell isEnd>{formatCost(row.cost)}</Cell>
        </Row>
      ))}
    </Table>
  </Card>
)
