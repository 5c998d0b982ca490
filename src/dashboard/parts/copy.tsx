// Copies text, and confirms it in the button.
import { useEffect, useState } from 'preact/hooks'
import { Button } from './button.tsx'
import { toast } from './toast.ts'

const SHOWN_MS = 1600

type CopyProps = { text: () => string; children?: string; label?: string; look?: 'bare' | 'default' }
export function CopyButton({ text, children, label, look = 'bare' }: CopyProps) {
  const [copied, setCopied] = useState(0)
  useEffect(() => {
    const timer = setTimeout(() => setCopied(0), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [copied])
  async function copy() {
    try {
      await navigator.clipboard.writeText(text())
      setCopied(count => count + 1)
    } catch {
      toast('bad', 'Nothing was copied', 'Copying needs https.')
    }
  }
  return (
    <Button small look={look} icon="copy" aria-label={label} title={label} onClick={() => void copy()}>
      {copied ? 'Copied' : children}
    </Button>
  )
}
