// SPDX-License-Identifier: Apache-2.0

import com.hivemq.embedded.EmbeddedExtension;
import com.hivemq.embedded.EmbeddedHiveMQ;
import com.hivemq.extension.sdk.api.ExtensionMain;
import com.hivemq.extension.sdk.api.parameter.ExtensionStartInput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStartOutput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStopInput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStopOutput;
import com.hivemq.extension.sdk.api.services.Services;
import com.hivemq.extension.sdk.api.auth.SimpleAuthenticator;
import java.nio.file.Files;
import java.nio.file.Path;

/** Serves MQTT as the configuration says; without an extension that lets clients in, HiveMQ keeps all of them out. */
public final class Serve {
    private static final Path STATE = Path.of("/state");

    public static void main(String[] words) throws Exception {
        Path folder = Files.createDirectory(STATE.resolve("conf"));
        Files.createSymbolicLink(folder.resolve("config.xml"), Path.of(words[0]));
        EmbeddedExtension open =
                EmbeddedExtension.builder().withId("open").withName("open").withVersion("1").withExtensionMain(new Open()).build();
        EmbeddedHiveMQ.builder()
                .withConfigurationFolder(folder)
                .withDataFolder(Files.createDirectory(STATE.resolve("data")))
                .withExtensionsFolder(Files.createDirectory(STATE.resolve("extensions")))
                .withEmbeddedExtension(open)
                .build()
                .start()
                .join();
        Thread.currentThread().join();
    }

    private static final class Open implements ExtensionMain {
        @Override
        public void extensionStart(ExtensionStartInput input, ExtensionStartOutput output) {
            SimpleAuthenticator anybody = (client, decision) -> decision.authenticateSuccessfully();
            Services.securityRegistry().setAuthenticatorProvider(provided -> anybody);
        }

        @Override
        public void extensionStop(ExtensionStopInput input, ExtensionStopOutput output) {}
    }
}
