// SPDX-License-Identifier: Apache-2.0

import java.nio.file.Path;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;

/** Serves MQTT as the configuration says. */
public final class Serve {
    public static void main(String[] words) throws Exception {
        new EmbeddedActiveMQ().setConfigResourcePath(Path.of(words[0]).toUri().toString()).start();
        Thread.currentThread().join();
    }
}
