// The chosen part of the audit log as a file.
import { useState } from 'preact/hooks'
import type { AuditFilter } from '../../api/audit-pages.ts'
import { getClient } from '../../api/client.ts'
import { word } from '../../format/shell-word.ts'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { CommandLine } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { formatBytes, saveFile } from '../../parts/save-file.ts'
import { Body, Note } from '../../parts/sections.tsx'
import { toast } from '../../parts/toast.ts'
import styles from './audit.module.css'

const FORMATS = [
  { format: 'ndjson', label: 'Export as NDJSON', extension: 'ndjson', type: 'application/x-ndjson' },
  { format: 'csv', label: 'Export as CSV', extension: 'csv', type: 'text/csv' },
  { format: 'ocsf', label: 'Export as OCSF', extension: 'ocsf.ndjson', type: 'application/x-ndjson' },
] as const

export function ExportBar({ filter }: { filter: AuditFilter }) {
  const [busy, setBusy] = useState<string>()
  const [bytes, setBytes] = useState(0)
  const [error, setError] = useState<Error>()
  async function save({ format, extension, type }: (typeof FORMATS)[number]): Promise<void> {
    setBusy(format)
    setError(undefined)
    const name = `audit-log-${filter.start_time.slice(0, 10)}-${new Date().toISOString().slice(0, 10)}.${extension}`
    try {
      const parts = getClient().download('GET /v1/audit-logs/export', { query: { ...filter, format } })
      toast('ok', `Exported the audit log to ${name}`, formatBytes(await saveFile(name, type, parts, setBytes)))
    } catch (caught) {
      setError(caught as Error)
    }
    setBusy(undefined)
    setBytes(0)
  }
  return (
    <Card title="Export" aside={busy && <span role="status">{formatBytes(bytes)} so far</span>}>
      <Body>
        <div class={styles.export}>
          {FORMATS.map(one => (
            <Button key={one.format} busy={busy === one.format} onClick={() => void save(one)}>
              {one.label}
            </Button>
          ))}
        </div>
        <Note>All matching entries, oldest first, as NDJSON, CSV or OCSF (a standard for security logs).</Note>
        <CommandLine command={toCommand(filter)} />
        {error && <Problem error={error} />}
      </Body>
    </Card>
  )
}

const toCommand = ({ start_time, operations, actor_id, subject_id }: AuditFilter): string =>
  [
    `slipway audit export --since ${start_time.slice(0, 10)}`,
    ...(Array.isArray(operations) ? operations : []).map(name => `--operation ${word(name)}`),
    ...(actor_id ? [`--actor ${actor_id}`] : []),
    ...(subject_id ? [`--subject ${subject_id}`] : []),
    '--format csv --output audit.csv',
  ].join(' ')
