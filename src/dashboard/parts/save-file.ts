// Gives the person a file that was read in parts.
export async function saveFile(
  name: string,
  type: string,
  parts: AsyncIterable<string | Uint8Array>,
  onProgress: (bytes: number) => void = () => {},
): Promise<number> {
  const all: Blob[] = []
  let bytes = 0
  for await (const part of parts) {
    // A blob may leave the memory of the page.
    const blob = new Blob([part as BlobPart])
    all.push(blob)
    bytes += blob.size
    onProgress(bytes)
  }
  const url = URL.createObjectURL(new Blob(all, { type }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
  return bytes
}

export const formatBytes = (bytes: number): string => {
  if (bytes < 1000) return `${bytes} bytes`
  return bytes < 1_000_000 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`
}
