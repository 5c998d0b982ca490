// The webhook of a git host: one that a person registers there, or that of the operator's App.

import { CommandLine } from '../../parts/panel.tsx'
import { Note } from '../../parts/sections.tsx'
import type { Integration } from './integration-state.ts'

export const WebhookSetup = ({ integration: { id, host, webhook_url } }: { integration: Integration }) => {
  if (!webhook_url.includes(id)) return <Note>The webhook of the app is already configured.</Note>
  return (
    <>
      <Note>
        {host === 'github'
          ? 'Set this webhook URL in your app, with content type JSON and the events push and pull request:'
          : 'Register a webhook for this URL in the repositories or the account, with content type JSON and the events ' +
            'push and pull request:'}
      </Note>
      <CommandLine command={webhook_url} />
    </>
  )
}
