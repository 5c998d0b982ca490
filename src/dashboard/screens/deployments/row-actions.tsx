// The actions in the row of a deployment.
import { type Deployment, isInFlight } from '../../format/state.ts'
import { useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { toAddress } from '../../router/links.tsx'
import { deployAgain, interrupt } from './actions.ts'

export default function RowActions({ deployment }: { deployment: Deployment }) {
  const { id, name, url, summary } = deployment
  const latest = summary?.in_flight_revision ?? summary?.latest_revision
  const { start, busy, question } = useAction()
  const action = latest && isInFlight(latest) ? interrupt(deployment, latest) : deployAgain(deployment)
  const label = (text: string) => ({ 'aria-label': `${text}: ${name}`, title: text })
  return (
    <>
      <ButtonLink small look="bare" icon="lines" href={toAddress(`/deployments/${id}/logs`)} {...label('Logs')} />
      {url && (
        <ButtonLink small look="bare" icon="out" href={url} target="_blank" rel="noreferrer" {...label('Visit')} />
      )}
      <Button
        small
        look="bare"
        icon={action.label.startsWith('Interrupt') ? 'stop' : 'again'}
        busy={busy}
        onClick={() => start(action)}
        unavailable={action.unavailable}
        {...label(action.label)}
      />
      {question}
    </>
  )
}
