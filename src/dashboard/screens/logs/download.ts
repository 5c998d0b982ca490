// Downloads all lines of a log that match the filters, also those that the page does not have.
import { getClient } from '../../api/client.ts'
import { toPlainText } from '../../format/ansi.ts'
import type { Names } from './log-lines.tsx'
import type { LogFilters } from './reader.ts'

const PAGE_LINES = 1000

type Download = {
  deployment_id: string
  filters: LogFilters
  names: Names
  onProgress: (lines: number) => void
}
export async function readLogText({ deployment_id, filters, names, onProgress }: Download): Promise<Blob> {
  const texts: string[] = []
  let count = 0
  for (let after = 0, hasMore = true; hasMore; ) {
    const page = await getClient().call('GET /v2/deployments/{deployment_id}/logs', {
      params: { deployment_id },
      query: { limit: PAGE_LINES, ...filters, after },
    })
    const lines = page.logs.map(({ timestamp, level, revision_id, kind, process, message }) => {
      const number = names.get(revision_id)?.number
      const from = [number === undefined ? revision_id : `r${number}`, kind, process].filter(Boolean).join(' ')
      return `${timestamp} ${level} ${from} ${toPlainText(message)}\n`
    })
    texts.push(lines.join(''))
    count += lines.length
    onProgress(count)
    after = page.next_after
    hasMore = page.has_more
  }
  return new Blob(texts, { type: 'text/plain' })
}

export function saveFile(name: string, content: Blob): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  link.download = name
  link.click()
  URL.revokeObjectURL(link.href)
}
