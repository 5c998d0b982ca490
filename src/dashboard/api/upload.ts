// Uploads an archive with its progress, which `fetch` does not report.
import type { Upload } from '../../client/client.ts'
import { ApiError, ConnectionError, isProblem } from '../../client/errors.ts'
import { getClient } from './client.ts'

type UploadOptions = { signal: AbortSignal; onProgress: (sent: number) => void }

/** For a deployment, or for a new one with the settings that it will have. A link works once. */
type Target = { id: string } | { root_directory?: string | null | undefined }

export async function uploadArchive(target: Target, archive: Blob, options: UploadOptions): Promise<Upload> {
  const { signal } = options
  const { upload_url } =
    'id' in target
      ? await getClient().call('POST /v2/deployments/{deployment_id}/upload-url', {
          params: { deployment_id: target.id },
          signal,
        })
      : await getClient().call('POST /v2/uploads', {
          body: { root_directory: target.root_directory ?? null },
          signal,
        })
  // The page may be open at another name of the installation than the one in its links, and its policy allows only
  // its own origin.
  const { pathname, search } = new URL(upload_url)
  return send(pathname + search, archive, options)
}

const send = (path: string, body: Blob, { signal, onProgress }: UploadOptions): Promise<Upload> =>
  new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    const stop = () => request.abort()
    request.open('PUT', path)
    request.setRequestHeader('Content-Type', 'application/gzip')
    request.upload.onprogress = ({ loaded }) => onProgress(loaded)
    request.onload = () => {
      const answer = readJson(request.responseText)
      if (request.status === 200) return resolve(answer as Upload)
      const detail = `The server answered ${request.status}, which is not a response of Slipway.`
      const response = { status: request.status, headers: new Headers() }
      reject(new ApiError(response, isProblem(answer) ? answer : { detail }))
    }
    request.onerror = () => reject(new ConnectionError('The upload was interrupted. Check the network and try again.'))
    request.onabort = () => reject(signal.reason)
    request.onloadend = () => signal.removeEventListener('abort', stop)
    signal.addEventListener('abort', stop)
    if (signal.aborted) stop()
    else request.send(body)
  })

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
