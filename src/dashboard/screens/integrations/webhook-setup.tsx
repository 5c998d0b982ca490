// The webhook of a git host: one that Slipway makes, that a person registers, or that of the operator's App.

import { CommandLine } from '../../parts/panel.tsx'
import { Note } from '../../parts/sections.tsx'
import { hasOwnCredentials, type Integration } from './integration-state.ts'

export const WebhookSetup = ({ integration }: { integration: Integration }) => {
  const { host, webhook_url } = integration
  if (!hasOwnCredentials(integration)) return <Note>The webhook of the app is already configured.</Note>
  if (host === 'git')
    return (
      <>
        <Note>
          Slipway looks every five minutes. To deploy at once, let a hook of the server send this after a push, with the
          webhook secret:
        </Note>
        <CommandLine command={`curl -X POST -H "X-Slipway-Token: $SECRET" ${webhook_url}`} />
      </>
    )
  return (
    <>
      <Note>
        {host === 'github'
          ? 'Set this webhook URL in your app, with content type JSON and the events push and pull request:'
          : 'Slipway makes the webhook of each repository that a deployment follows. Where the account may not, register ' +
            `one for this URL, with the events ${host === 'gitlab' ? 'push and merge request' : 'push, delete, pull request and pull request synchronized, as JSON'}:`}
      </Note>
      <CommandLine command={webhook_url} />
    </>
  )
}
