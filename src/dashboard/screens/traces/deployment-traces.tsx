// The traces of a deployment: the runs of its tracing project, which has its name.
import { useRead } from '../../api/queries.ts'
import type { Deployment } from '../../format/state.ts'
import { ButtonLink } from '../../parts/button.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { toAddress } from '../../router/links.tsx'
import { DeploymentFrame } from '../deployments/frame.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { OverviewCharts } from './overview-charts.tsx'
import { Runs } from './runs.tsx'
import { SpanPicker } from './span-picker.tsx'
import styles from './traces.module.css'

export default function DeploymentTraces({ workspace, params }: ScreenProps<{ deployment: string }>) {
  return (
    <DeploymentFrame workspace={workspace} id={params.deployment} tab="/traces">
      {deployment => <Traces workspace={workspace} deployment={deployment} />}
    </DeploymentFrame>
  )
}

function Traces({ workspace, deployment }: { workspace: string; deployment: Deployment }) {
  const { data, error, refetch } = useRead(workspace, 'GET /sessions', { query: { name: deployment.name } })
  const project = data?.find(({ deployment_id }) => deployment_id === deployment.id)
  if (error && !data) return <Problem error={error} onRetry={() => void refetch()} />
  if (!data) return <Skeleton lines={9} />
  if (!project)
    return (
      <Empty title="No tracing project" action={<ButtonLink href={toAddress('/traces')}>Open the traces</ButtonLink>}>
        New deployments have a tracing project.
      </Empty>
    )
  return (
    <>
      <div class={styles.bar}>
        <SpanPicker />
        <ButtonLink small href={toAddress(`/traces/${project.id}`)} icon="spans">
          Open the project
        </ButtonLink>
      </div>
      <OverviewCharts workspace={workspace} project={project} />
      <Runs workspace={workspace} project={project} />
    </>
  )
}
