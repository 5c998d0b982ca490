// The incidents of a deployment that are open, on its page.
import { usePages } from '../../api/queries.ts'
import { Card } from '../../parts/card.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, Row, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { Link } from '../../router/links.tsx'
import { stateOfIncident } from './alert-state.ts'

/** A role without `alerts:read` sees none. */
export function OpenIncidents({ workspace, deployment }: { workspace: string; deployment: string }) {
  const query = { state: 'unresolved' as const, deployment_id: deployment, limit: 20 }
  const { items } = usePages(workspace, 'GET /v2/incidents', { query })
  if (!items || items.length === 0) return null
  return (
    <Card tone="bad" title="Open incidents">
      <Table
        caption="Open incidents, newest first"
        columns={[
          { label: 'Incident', width: '56%' },
          { label: 'State', width: '24%' },
          { label: 'Opened', width: '96', isEnd: true },
        ]}
      >
        {items.map(incident => (
          <Row key={incident.id}>
            <Cell detail={incident.cause}>
              <Link to={`/alerts/${incident.id}`}>{incident.title}</Link>
            </Cell>
            <Cell>
              <StateLabel state={stateOfIncident(incident)} />
            </Cell>
            <Cell isEnd>
              <Ago time={incident.opened_at} />
            </Cell>
          </Row>
        ))}
      </Table>
    </Card>
  )
}
