// The empty list of deployments: the ways to create the first one.
import { CommandLine } from '../../parts/panel.tsx'
import styles from './new.module.css'
import { NoAgent } from './no-agent.tsx'
import { WayLinks } from './ways.tsx'

export default function EmptyWorkspace({ workspace }: { workspace: string }) {
  return (
    <section class={styles.empty}>
      <h2>No deployments yet</h2>
      <p>A deployment is an application with a URL. Start with one of these:</p>
      <WayLinks />
      <p>
        Or in a terminal, in the folder of an application. <code>path/to/slipway</code> is where you have the source of
        Slipway.
      </p>
      <CommandLine command={`npx --yes path/to/slipway login --url ${location.origin}`} />
      <CommandLine command="npx --yes path/to/slipway deploy" />
      <NoAgent workspace={workspace} />
    </section>
  )
}
