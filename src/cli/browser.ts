// Opens a page in the browser of this machine.
import { spawn } from 'node:child_process'

/** The caller prints the URL, so a machine without a browser needs nothing else. */
export function openInBrowser(url: string): void {
  if (!/^https?:\/\//.test(url)) return
  const [program, args] =
    process.platform === 'darwin'
      ? ['open', [url]]
      : process.platform === 'win32'
        ? ['rundll32', ['url.dll,FileProtocolHandler', url]]
        : ['xdg-open', [url]]
  const opener = spawn(program as string, args as string[], { detached: true, stdio: 'ignore' })
  opener.on('error', () => {})
  opener.unref()
}
