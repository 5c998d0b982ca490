// Reads all lines of a log that match the filters, also those that the page does not have, and saves them as a file.
import { getClient } from '../../api/client.ts'
import { toPlainText } from '../../format/ansi.ts'
import type { Deployment } from '../../format/state.ts'
import { saveFile } from '../../parts/save-file.ts'
import type { ShownLog } from './filters.ts'
import type { Names } from './log-lines.tsx'

const PAGE_LINES = 1000

type Download = {
  deployment: Pick<Deployment, 'id' | 'name'>
  shown: ShownLog
  names: Names
  onProgress: (lines: number) => void
}
export function saveLog(download: Download): Promise<number> {
  const { deployment, shown, names } = download
  const number = names.get(shown.revision)?.number
  const parts = [deployment.name, number && `r${number}`, shown.kind, new Date().toISOString().slice(0, 16)]
  const name = `${parts.filter(Boolean).join('-').replaceAll(':', '')}.log`
  return saveFile(name, 'text/plain', readText(download))
}

async function* readText({ deployment, shown, names, onProgress }: Download) {
  let count = 0
  for (let after = 0, hasMore = true; hasMore; ) {
    const page = await getClient().call('GET /v2/deployments/{deployment_id}/logs', {
      params: { deployment_id: deployment.id },
      query: { limit: PAGE_LINES, ...shown.filters, after },
    })
    const lines = page.logs.map(({ timestamp, level, revision_id, kind, process, message }) => {
      const number = names.get(revision_id)?.number
      const from = [number === undefined ? revision_id : `r${number}`, kind, process].filter(Boolean).join(' ')
      return `${timestamp} ${level} ${from} ${toPlainText(message)}\n`
    })
    yield lines.join('')
    count += lines.length
    onProgress(count)
    after = page.next_after
    hasMore = page.has_more
  }
}
