/** A listener. It reads the page, and may return a function that then changes the page. */
type Listener = () => void | (() => void);

/** Listeners by topic. */
export class Signal<Topic extends string> {
  private readonly listeners = new Map<Topic, Set<Listener>>();

  /** Calls `listener` on any of `topics`. Returns a function that removes it. */
  on(topics: readonly Topic[], listener: Listener): () => void {
    for (const topic of topics) {
      let set = this.listeners.get(topic);
      if (!set) this.listeners.set(topic, (set = new Set()));
      set.add(listener);
    }
    return () => topics.forEach((topic) => this.listeners.get(topic)?.delete(listener));
  }

  /** Calls the listeners, then the functions that they returned: alternating reads and changes would force layouts. */
  emit(topic: Topic): void {
    const changes = [...(this.listeners.get(topic) ?? [])].map((listener) => listener());
    for (const change of changes) change?.();
  }
}
