// How pushes of a git host arrive: by a webhook that a person registers there, or by that of the operator's App.
import { Note } from '../../parts/page.tsx'
import { CommandLine } from '../../parts/panel.tsx'
import type { Integration } from './integration-state.ts'

export const WebhookSetup = ({ integration: { id, host, webhook_url } }: { integration: Integration }) => {
  if (!webhook_url.includes(id)) return <Note>They arrive by the webhook of the App. There is nothing to set up.</Note>
  return (
    <>
      <Note>
        {host === 'github'
          ? 'Set this as the webhook URL of your App, with content type JSON and the events push and pull request:'
          : 'Register a webhook for this URL in the repositories or the account, with content type JSON and the events ' +
            'push and pull request:'}
      </Note>
      <CommandLine command={webhook_url} />
    </>
  )
}
