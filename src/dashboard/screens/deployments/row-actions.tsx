// What can be done with a deployment from its row in the list.
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
  const { unavailable } = action
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
        unavailable={unavailable !== undefined}
        {...label(action.label)}
        title={unavailable ?? action.label}
      />
      {question}
    </>
  )
}
