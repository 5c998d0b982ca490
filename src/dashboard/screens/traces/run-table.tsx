// Runs as a table: what went in and came out, how long it took, what it cost.
import type { Ref } from 'preact'
import type { Run, RunQuery } from '../../api/runs.ts'
import { formatCost, formatCount, formatLatency } from '../../format/amount.ts'
import { Glyph } from '../../parts/icon.tsx'
import { Cell, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { Link } from '../../router/links.tsx'
import { describeScore, scoresOf } from './feedback-scores.ts'
import { runPath } from './run-path.ts'
import { firstLine, latencyOf, stateOfRun, TYPE_WORDS } from './run-state.ts'
import { TypeIcon } from './run-type.tsx'
import styles from './runs.module.css'

export const ROW_SELECT = [
  'id',
  'name',
  'run_type',
  'status',
  'trace_id',
  'start_time',
  'end_time',
  'error',
  'tags',
  'inputs_preview',
  'outputs_preview',
  'total_tokens',
  'total_cost',
  'feedback_stats',
  'session_id',
] as const satisfies NonNullable<RunQuery['select']>

type TableProps = {
  runs: Run[]
  caption: string
  tableRef?: Ref<HTMLTableElement>
  isOld?: boolean
}
export const RunTable = ({ runs, caption, tableRef, isOld = false }: TableProps) => (
  <Table
    caption={caption}
    tableRef={tableRef}
    isOld={isOld}
    columns={[
      { label: 'Run', width: '27%' },
      { label: 'Input and output' },
      { label: 'Duration', width: '86' },
      { label: 'Tokens', width: '92' },
      { label: 'Feedback', width: '124' },
      { label: 'Started', width: '84', isEnd: true },
    ]}
  >
    {runs.map(run => (
      <RunRow key={run.id} run={run} />
    ))}
  </Table>
)

function RunRow({ run }: { run: Run }) {
  const { name, run_type, tags, error, inputs_preview, outputs_preview, total_tokens, total_cost } = run
  const state = stateOfRun(run)
  const latency = latencyOf(run)
  const scores = scoresOf(run.feedback_stats)
  return (
    <Row>
      <Cell
        icon={
          <span class={styles.glyph}>
            <Glyph shape={state.shape} tone={state.tone} />
          </span>
        }
        detail={
          <span class={styles.kind}>
            <TypeIcon type={run_type} />
            {[TYPE_WORDS[run_type], ...(tags ?? [])].join(' · ')}
          </span>
        }
      >
        <Link to={runPath(run)} data-row class={rowLink} title={name}>
          {name}
        </Link>
        <span class={styles.unseen}>{state.word}</span>
      </Cell>
      <Cell
        detail={
          error ? (
            <span class={styles.error}>{firstLine(error)}</span>
          ) : (
            outputs_preview || (run.status === 'pending' ? 'No output yet' : 'No output')
          )
        }
      >
        <span class={styles.input}>{inputs_preview || 'No input'}</span>
      </Cell>
      <Cell>{latency === undefined ? <span class={styles.busy}>Running</span> : formatLatency(latency)}</Cell>
      <Cell isWideOnly detail={Number(total_cost) > 0 && formatCost(total_cost ?? 0)}>
        {total_tokens ? formatCount(total_tokens) : '–'}
      </Cell>
      <Cell isWideOnly detail={scores[1] && describeScore(scores[1])}>
        {scores[0] ? describeScore(scores[0]) : ''}
      </Cell>
      <Cell isEnd>{run.start_time && <Ago time={run.start_time} />}</Cell>
    </Row>
  )
}
