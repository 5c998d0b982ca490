// The drains of the workspace: places that its logs, metrics, traces and events are sent to.
import { explainMissing } from '../../api/permissions.ts'
import { usePages } from '../../api/queries.ts'
import { Icon } from '../../parts/icon.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { describeDropped, describeSignals, labelOf, stateOfDrain } from './drain-state.ts'

/** Counts of agents have no event. */
const READ_EVERY_MS = 10_000

export default function DrainList({ workspace, me }: ScreenProps) {
  return (
    <ResourceList
      title="Drains"
      thing="drain"
      caption="Drains, newest first"
      query={usePages(workspace, 'GET /v2/drains', { query: { limit: 100 } }, { everyMs: READ_EVERY_MS })}
      create={{
        label: 'Create drain',
        to: '/drains/new',
        unavailable: explainMissing(me, workspace, 'drains:manage'),
      }}
      filter={{ by: 'name or address', texts: one => [one.name, one.url] }}
      views={[
        {
          name: 'attention',
          label: 'Needs attention',
          has: ({ state }) => state.status === 'failing' || state.dropped > 0,
        },
      ]}
      empty={{
        title: 'No drains yet',
        command: 'slipway drains create Collector otlp https://otel.example.com:4318 --signals logs,metrics',
        text:
          'A drain sends logs, requests, metrics, traces and events to a place of yours, as they come: an ' +
          'OpenTelemetry collector, Grafana Loki, Vector or syslog. There they last as long as you like.',
      }}
      columns={[
        {
          label: 'Drain',
          width: '38%',
          icon: () => <Icon name="out" />,
          to: ({ id }) => `/drains/${id}`,
          name: ({ name }) => name,
          detail: ({ kind, url }) => `${labelOf(kind)}: ${url}`,
        },
        {
          label: 'State',
          width: '26%',
          cell: drain => <StateLabel state={stateOfDrain(drain)} />,
          detail: ({ state }) =>
            state.status === 'failing' && state.failing_since ? (
              <>
                For <Ago time={state.failing_since} />
                {state.dropped > 0 && `, ${describeDropped(state)}`}
              </>
            ) : (
              describeDropped(state)
            ),
        },
        { label: 'Signals', isWideOnly: true, cell: describeSignals },
        {
          label: 'Last sent',
          width: '96',
          isEnd: true,
          cell: ({ state }) => (state.last_sent_at ? <Ago time={state.last_sent_at} /> : '–'),
        },
      ]}
    />
  )
}
