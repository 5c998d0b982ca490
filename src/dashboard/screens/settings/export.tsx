// The workspace as one file, to keep, to compare, or to leave with.
import { useState } from 'preact/hooks'
import { type ExportFormat, LEFT_OUT, listUnreadable, writeExport } from '../../../client/export.ts'
import { getClient, type Workspace } from '../../api/client.ts'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { CommandLine } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { formatBytes, saveFile } from '../../parts/save-file.ts'
import { Body, Note } from '../../parts/sections.tsx'
import { toast } from '../../parts/toast.ts'
import styles from './settings.module.css'

const TYPES = { yaml: 'application/yaml', json: 'application/json' }
const toFileName = (name: string) =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '') || 'workspace'

export function ExportCard({ workspace }: { workspace: Workspace }) {
  const [busy, setBusy] = useState<ExportFormat>()
  const [bytes, setBytes] = useState(0)
  const [error, setError] = useState<Error>()
  async function save(format: ExportFormat): Promise<void> {
    setBusy(format)
    setError(undefined)
    const name = `${toFileName(workspace.display_name)}.${format}`
    try {
      const size = await saveFile(name, TYPES[format], writeExport(getClient(), workspace, format), setBytes)
      toast('ok', `Exported ${workspace.display_name} to ${name}`, formatBytes(size))
    } catch (caught) {
      setError(caught as Error)
    }
    setBusy(undefined)
    setBytes(0)
  }
  return (
    <Card title="Export" aside={busy && <span role="status">{formatBytes(bytes)} so far</span>}>
      <Body>
        <Note>
          One file with all resources that can be created again: deployments with their configuration and the names of
          their secrets, preview policies, custom roles, listeners, tags, custom domains and webhooks. Each resource has
          the body of the request that creates it.
        </Note>
        <div class={styles.buttons}>
          <Button busy={busy === 'yaml'} onClick={() => void save('yaml')}>
            Export as YAML
          </Button>
          <Button busy={busy === 'json'} onClick={() => void save('json')}>
            Export as JSON
          </Button>
        </div>
        <CommandLine command="slipway export --output workspace.yaml" />
        <details class={styles.details}>
          <summary>Not included</summary>
          <ul>
            {[...LEFT_OUT, ...listUnreadable(workspace)].map(what => (
              <li key={what}>{what}</li>
            ))}
          </ul>
        </details>
        {error && <Problem error={error} />}
      </Body>
    </Card>
  )
}
