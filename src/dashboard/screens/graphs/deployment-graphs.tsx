// The graphs of a deployment: its threads, for those who may reach the application.
import { explainMissing } from '../../api/permissions.ts'
import { ButtonLink } from '../../parts/button.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { toAddress } from '../../router/links.tsx'
import { DeploymentFrame } from '../deployments/frame.tsx'
import type { ScreenProps } from '../screen-props.ts'

const Threads = lazily(() => import('./threads.tsx'), <Skeleton lines={6} />)

export default function DeploymentGraphs({ workspace, params, me }: ScreenProps<{ deployment: string }>) {
  // The page reaches the application through its agent, with its key.
  const missing = explainMissing(me, workspace, 'deployments:exec') ?? explainMissing(me, workspace, 'secrets:read')
  return (
    <DeploymentFrame workspace={workspace} id={params.deployment} tab="/graphs">
      {({ id, active_revision_id }) =>
        missing !== undefined ? (
          <Empty
            title="Your role cannot open the graphs"
            action={<ButtonLink href={toAddress('/roles')}>Open the roles</ButtonLink>}
          >
            {missing}
          </Empty>
        ) : active_revision_id === null ? (
          <Empty title="No revision is serving">Threads are here once a revision with graphs is deployed.</Empty>
        ) : (
          <Threads key={id} deployment={id} />
        )
      }
    </DeploymentFrame>
  )
}
