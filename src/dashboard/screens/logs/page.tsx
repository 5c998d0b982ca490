// The tab of logs of a deployment.
import { DeploymentFrame } from '../deployments/frame.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { Logs } from './logs.tsx'

export default function LogsPage({ workspace, params }: ScreenProps<{ deployment: string }>) {
  return (
    <DeploymentFrame workspace={workspace} id={params.deployment} tab="/logs">
      {deployment => <Logs workspace={workspace} deployment={deployment} />}
    </DeploymentFrame>
  )
}
