// A modal dialog: the browser's own, which keeps the focus and closes with Escape.
import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { Button } from './button.tsx'
import styles from './dialog.module.css'

type DialogProps = {
  title: string
  children: ComponentChildren
  footer?: ComponentChildren
  onClose: () => void
  persistent?: boolean
  wide?: boolean
}
export function Dialog({ title, children, footer, onClose, persistent = false, wide = false }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  // Open before the next key arrives.
  useLayoutEffect(() => {
    const { current } = dialog
    current?.showModal()
    // Closing gives the focus back to where it was; a dialog that is only removed does not.
    return () => {
      current?.close()
      if (document.activeElement === document.body) document.getElementById('content')?.focus({ preventScroll: true })
    }
  }, [])
  /** Ctrl+Enter or Cmd+Enter presses the last button, if it is the main one. */
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || event.defaultPrevented) return
    const main = [...dialog.current!.querySelectorAll<HTMLButtonElement>(':scope > div > footer button')].at(-1)
    if (!main?.hasAttribute('data-main')) return
    event.preventDefault()
    main.click()
  }
  /** React at once: the browser reports a closed dialog later, and a key pressed meanwhile would be lost. */
  const cancel = (event: Event) => {
    event.preventDefault()
    if (!persistent) onClose()
  }
  /** A removed dialog reports that it was closed, too, maybe after the next one has opened. */
  const closeIfShown = () => dialog.current && onClose()
  const closeOutside = ({ target }: MouseEvent) => !persistent && target === dialog.current && onClose()
  return (
    <dialog
      ref={dialog}
      class={`${styles.dialog} ${wide ? styles.wide : ''}`}
      aria-labelledby={titleId}
      onClose={closeIfShown}
      onCancel={cancel}
      onKeyDown={onKeyDown}
      onClick={closeOutside}
    >
      <div class={styles.frame}>
        <header>
          <h2 id={titleId}>{title}</h2>
          {!persistent && <Button small look="bare" icon="cross" aria-label="Close" onClick={onClose} />}
        </header>
        <div class={styles.body}>{children}</div>
        {footer && <footer>{footer}</footer>}
      </div>
    </dialog>
  )
}
