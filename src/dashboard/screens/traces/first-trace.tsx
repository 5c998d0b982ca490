// The setup for the first trace of a project, in a form to copy.
import type { ComponentChildren } from 'preact'
import { caller } from '../../api/client.ts'
import { explainMissing } from '../../api/permissions.ts'
import { CopyButton } from '../../parts/copy.tsx'
import { Empty } from '../../parts/panel.tsx'
import { Link } from '../../router/links.tsx'
import type { Project } from './project.ts'
import styles from './traces.module.css'

type FirstTraceProps = { workspace: string; project?: Pick<Project, 'name' | 'deployment_id'> }
export default function FirstTrace({ workspace, project }: FirstTraceProps) {
  if (project?.deployment_id) return <OfDeployment />
  const text = [
    'LANGSMITH_TRACING=true',
    `LANGSMITH_ENDPOINT=${location.origin}/api/v1`,
    'LANGSMITH_API_KEY=…',
    ...(project ? [`LANGSMITH_PROJECT=${quoteVariable(project.name)}`] : []),
  ].join('\n')
  const canCreateKey = caller.value && explainMissing(caller.value, workspace, 'api-keys:create') === undefined
  return (
    <Nothing text={text}>
      A trace records one request to an application: its steps with inputs, outputs, times, tokens and costs. Set these
      variables where the application runs, with{' '}
      {canCreateKey ? <Link to="/keys/new">a key</Link> : 'a key that has the permission runs:create'}. Spans of
      OpenTelemetry go to <code>{location.origin}/otel</code>.
    </Nothing>
  )
}

const quoteVariable = (value: string): string => (/[\s#"'$]/.test(value) ? JSON.stringify(value) : value)

const WRAPPED = `import { traceable } from 'langsmith/traceable'

export const answer = traceable(ask, { name: 'answer' })`

/** The agent gives it what it needs. */
const OfDeployment = () => (
  <Nothing text={WRAPPED}>
    The application already has the URL, the project and a key in its variables, unless its setting or its own variables
    override them. Wrap a function, or use an OpenTelemetry exporter, which needs no configuration either.
  </Nothing>
)

const Nothing = ({ text, children }: { text: string; children: ComponentChildren }) => (
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
    <span class={styles.about}>{children}</span>
  </Empty>
)
