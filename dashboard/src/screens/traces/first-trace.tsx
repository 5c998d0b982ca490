// How the first trace of a project arrives: the variables to set, in a form to copy.

import { caller } from '../../api/client.ts'
import { explainMissing } from '../../api/permissions.ts'
import { CopyButton } from '../../parts/copy.tsx'
import { Empty } from '../../parts/panel.tsx'
import { Link } from '../../router/links.tsx'
import styles from './traces.module.css'

export default function FirstTrace({ workspace, project }: { workspace: string; project?: string }) {
  const text = [
    'LANGSMITH_TRACING=true',
    `LANGSMITH_ENDPOINT=${location.origin}`,
    'LANGSMITH_API_KEY=…',
    ...(project ? [`LANGSMITH_PROJECT=${/[\s#"'$]/.test(project) ? JSON.stringify(project) : project}`] : []),
  ].join('\n')
  const canCreateKey = caller.value && explainMissing(caller.value, workspace, 'api-keys:create') === undefined
  return (
    <Empty
      title="No traces yet"
      action={
        <div class={styles.snippet}>
          <pre>{text}</pre>
          <CopyButton text={() => text} look="default">
            Copy
          </CopyButton>
        </div>
      }
    >
      <span class={styles.about}>
        A trace is what an application did for one request: its steps, their inputs and outputs, times, tokens and
        costs. Set these variables where it runs, with{' '}
        {canCreateKey ? <Link to="/keys/new">a key</Link> : 'a key that has the permission runs:create'}. Spans of
        OpenTelemetry go to <code>{location.origin}/otel</code>.
      </span>
    </Empty>
  )
}
